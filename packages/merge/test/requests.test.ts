// Options per request, callbacks, secrets, limits and the attempt log.
import { ConnectionLostError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Callbacks } from "../src/delivery/callbacks.ts";
import {
  AddressGuard,
  Attempts,
  DeadLetters,
  EndpointQueue,
  Endpoints,
  HttpDispatcher,
  type HttpDispatcherOptions,
  Inspector,
  keyOf,
  MergeQueue,
  verifyWebhook,
} from "../src/index.ts";
import { Receiver } from "./receiver.ts";

const { redis } = await redisForFile();
let prefixes = 0;
let queue: MergeQueue;
let at: EndpointQueue;
let receiver: Receiver;
let dispatcher: HttpDispatcher | undefined;

beforeEach(async () => {
  prefixes += 1;
  queue = new MergeQueue(redis, { prefix: `r${prefixes}` });
  at = new EndpointQueue(queue, new AddressGuard(["loopback"]));
  receiver = await Receiver.start();
});

afterEach(async () => {
  await dispatcher?.close();
  dispatcher = undefined;
  await receiver.close();
});

async function deliver(options: HttpDispatcherOptions = {}) {
  const quick = { backoff: { delayMs: 20, maxMs: 20 }, holdJitterMs: 1 };
  dispatcher = await new HttpDispatcher(queue, {
    allow: ["loopback"],
    ...quick,
    ...options,
  }).start();
}

const to = (mergeKey: string, path = "/hook") =>
  at.destination({ mergeKey, url: receiver.url(path) });
const empty = () =>
  eventually(async () => expect((await new Inspector(queue).stats()).keys).toBe(0));
const status = (code: number) => {
  receiver.answer = ({ path }, response) => {
    response.statusCode = path === "/hook" ? code : 200;
    response.end("the response");
  };
};

test("a push decides about attempts, timeout and headers of its delivery", async () => {
  status(500);
  await deliver();
  const headers = { "X-Tenant": "7", authorization: "Bearer t" };
  await at.push(to("k"), "1", { request: { attempts: 2, headers } });
  await eventually(async () =>
    expect((await new DeadLetters(queue).list()).items).toMatchObject([{ attempts: 2 }]),
  );
  expect(receiver.requests).toHaveLength(2);
  expect(receiver.requests[0]?.headers).toMatchObject({
    "x-tenant": "7",
    authorization: "Bearer t",
    "content-type": "application/json",
  });
  receiver.answer = () => {};
  await at.push(to("-slow"), "1", { request: { attempts: 1, timeoutMs: 50 } });
  await eventually(async () =>
    expect((await new DeadLetters(queue).list()).items[0]?.reason).toContain("50 ms"),
  );
});

test("options of a request survive death and replay", async () => {
  status(500);
  await deliver({ attempts: 9 });
  await at.push(to("k"), "1", { request: { attempts: 1, headers: { "x-a": "b" } } });
  const letters = new DeadLetters(queue);
  await eventually(async () => expect((await letters.list()).items).toHaveLength(1));
  await letters.replayAll();
  await eventually(() => expect(receiver.requests).toHaveLength(2));
  await eventually(async () => expect((await letters.list()).items).toHaveLength(1));
  expect(receiver.requests[1]?.headers["x-a"]).toBe("b");
});

test("callbacks tell of success and of death, through the queue", async () => {
  const callback = receiver.url("/callback");
  const failureCallback = receiver.url("/failed");
  const request = { callback, failureCallback, attempts: 1 };
  status(201);
  await deliver();
  const { id } = await at.push(to("fine"), "1", { request });
  await empty();
  const told = () => receiver.requests.filter(({ path }) => path !== "/hook");
  await eventually(() => expect(told()).toHaveLength(1));
  expect(JSON.parse(told()[0]?.body ?? "")).toMatchObject({
    ...{ type: "delivered", key: "fine", status: 201, response: "the response", attempt: 1 },
    ...{ items: [id], url: receiver.url() },
  });
  status(503);
  await at.push(to("sad"), "1", { request });
  await eventually(() => expect(told()).toHaveLength(2));
  expect(told()[1]).toMatchObject({ path: "/failed" });
  expect(JSON.parse(told()[1]?.body ?? "")).toMatchObject({
    ...{ type: "dead", key: "sad", reason: expect.stringContaining("503") },
  });
});

test.each([
  ["callback", 200],
  ["failureCallback", 500],
])("a %s survives a connection that is lost at that moment", async (name, code) => {
  status(code);
  let lost = 0;
  const run = redis.run.bind(redis);
  const spy = vi.spyOn(redis, "run").mockImplementation((script, keys, args) => {
    if (
      script.name !== "push" ||
      !args.some((arg) => String(arg).startsWith("-callback")) ||
      lost === 2
    ) {
      return run(script, keys, args);
    }
    lost += 1;
    return Promise.reject(new ConnectionLostError("redis.test:6379", new Error("cut")));
  });
  try {
    await deliver();
    const request = { [name]: receiver.url("/callback"), attempts: 1 };
    await at.push(to("k"), "1", { request });
    await eventually(() =>
      expect(receiver.requests.map(({ path }) => path)).toEqual(["/hook", "/callback"]),
    );
    expect(lost).toBe(2);
    await empty();
  } finally {
    spy.mockRestore();
  }
});

test("an endpoint's own secrets sign, the secret before for a while", async () => {
  const endpoints = new Endpoints(queue);
  const first = await endpoints.rotateSecret(receiver.url());
  const second = await endpoints.rotateSecret(receiver.url());
  const common = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
  await deliver({ signingKeys: [common] });
  await at.push(to("-a"), "1");
  await at.push(to("-b", "/other"), "2");
  await empty();
  const [own] = receiver.requests.filter(({ path }) => path === "/hook");
  const [other] = receiver.requests.filter(({ path }) => path === "/other");
  for (const key of [first, second]) {
    expect(() => verifyWebhook(own?.headers ?? {}, own?.raw ?? "", { keys: [key] })).not.toThrow();
  }
  expect(() => verifyWebhook(own?.headers ?? {}, own?.raw ?? "", { keys: [common] })).toThrow();
  verifyWebhook(other?.headers ?? {}, other?.raw ?? "", { keys: [common] });
  const third = await endpoints.rotateSecret(receiver.url(), { graceMs: 0 });
  expect((await endpoints.get(receiver.url()))?.secrets).toBe(1);
  expect(third).not.toBe(second);
});

test("an endpoint's concurrency and rate are limited over all dispatchers, without attempts", async () => {
  const endpoints = new Endpoints(queue);
  await endpoints.limit(receiver.url(), { concurrency: 2 });
  let running = 0;
  let most = 0;
  receiver.answer = (_, response) => {
    running += 1;
    most = Math.max(most, running);
    setTimeout(() => {
      running -= 1;
      response.end();
    }, 10);
  };
  await deliver();
  const options = { allow: ["loopback"], holdJitterMs: 1 };
  await using _second = await new HttpDispatcher(queue, options).start();
  for (let i = 0; i < 20; i++) await at.push(to(`k${i}`), "1");
  await empty();
  expect(receiver.requests).toHaveLength(20);
  expect(most).toBeLessThanOrEqual(2);
  expect((await new DeadLetters(queue).list()).items).toEqual([]);
});

test("every attempt is logged with its status and the beginning of the response", async () => {
  status(418);
  await deliver({ attempts: 2 });
  await at.push(to("k"), "1");
  const attempts = new Attempts(queue);
  const logged = await eventually(async () => {
    const { items } = await attempts.list();
    expect(items).toHaveLength(2);
    return items;
  });
  expect(logged.map(({ result }) => result)).toEqual(["dead", "retry"]);
  expect(await attempts.totals()).toMatchObject({
    ...{ deliveries: { dead: 1, retry: 1 }, items: { dead: 1, retry: 1 } },
    ...{ bytes: { dead: 1, retry: 1 }, failures: { http_4xx: 2 }, retries: 1 },
    lateness: { count: 1, sumMs: expect.any(Number) },
  });
  expect(logged[1]).toMatchObject({ attempt: 1, status: 418, response: "the response", items: 1 });
  expect((await attempts.list({ url: receiver.url("/no") })).items).toEqual([]);
  expect((await attempts.list({ url: receiver.url(), limit: 1 })).items).toHaveLength(1);
  const seen: number[] = [];
  const ending = new AbortController();
  const after = logged[1]?.entry;
  for await (const { attempt } of attempts.follow({ after, signal: ending.signal })) {
    seen.push(attempt);
    ending.abort();
  }
  expect(seen).toEqual([2]);
});

test("a batch that is delivered again after a crash has one callback of each kind", async () => {
  const request = { callback: receiver.url("/callback"), failureCallback: receiver.url("/failed") };
  await at.push(to("k"), "1", { request });
  const batch = await queue.get(keyOf(to("k"), ""), { leaseMs: 60_000 });
  if (batch === undefined) throw new Error("no batch");
  const callbacks = new Callbacks(queue);
  const response = { status: 200, retryAfter: undefined, body: Buffer.alloc(0), complete: true };
  for (let i = 0; i < 2; i++) {
    await callbacks.delivered(batch, response, []);
    await callbacks.dead(batch, "no");
  }
  const { items } = await new Inspector(queue).list({ search: "-callback" });
  const urls = items.map(({ destination }) => destination?.url).sort();
  expect(urls).toEqual([request.callback, request.failureCallback]);
  expect(items.map((each) => each.items)).toEqual([1, 1]);
});

test("a secret whose time is over signs no more", async () => {
  const [newest, former] = [1, 2].map((n) => `whsec_${Buffer.alloc(32, n).toString("base64")}`);
  const secrets = JSON.stringify([{ secret: newest }, { secret: former, until: 1 }]);
  await redis.send(["HSET", queue.keys.endpoint(receiver.url()), "secrets", secrets]);
  await deliver();
  await at.push(to("k"), "1");
  await empty();
  const { headers = {}, raw = "" } = receiver.requests[0] ?? {};
  expect(() => verifyWebhook(headers, raw, { keys: [newest ?? ""] })).not.toThrow();
  expect(() => verifyWebhook(headers, raw, { keys: [former ?? ""] })).toThrow("no signature");
});
