// A Redis without memory refuses commands that need more of it. Pushes are refused whole. Taking, delivering and
// abandoning batches must continue, because they free memory.
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterEach, expect, test } from "vitest";
import {
  DeadLetters,
  Endpoints,
  HttpDispatcher,
  type HttpDispatcherOptions,
  Inspector,
  keyOf,
  MergeQueue,
} from "../src/index.ts";
import { Receiver } from "./receiver.ts";

const { server, redis } = await redisForFile({ config: ["maxmemory-policy noeviction"] });
let prefixes = 0;

afterEach(() => limit("0"));

const limit = (bytes: string) => server.command("CONFIG", "SET", "maxmemory", bytes);
const full = () => limit("1");

function fresh() {
  prefixes += 1;
  const queue = new MergeQueue(redis, { prefix: `m${prefixes}` });
  return {
    queue,
    inspector: new Inspector(queue),
    letters: new DeadLetters(queue),
    endpoints: new Endpoints(queue),
  };
}

function dispatch(queue: MergeQueue, options: HttpDispatcherOptions = {}): Promise<HttpDispatcher> {
  const quick = { backoff: { delayMs: 20, maxMs: 50 }, holdJitterMs: 1 };
  return new HttpDispatcher(queue, { allow: ["loopback"], ...quick, ...options }).start();
}

test("pushes are refused by name until what is queued has gone out and made room", async () => {
  const { queue, inspector } = fresh();
  await using receiver = await Receiver.start();
  const key = (n: number) => keyOf({ mergeKey: `k${n}`, method: "POST", url: receiver.url() }, "");
  const info = String(await server.command("INFO", "memory"));
  const used = Number(/used_memory:(\d+)/.exec(info)?.[1]);
  const body = JSON.stringify("x".repeat(65_536));
  await limit(String(used + 4 * 1_048_576));
  let pushed = 0;
  let refusal: unknown;
  while (refusal === undefined) {
    await queue.push(key(pushed), body).then(
      () => (pushed += 1),
      (error) => (refusal = error),
    );
  }
  expect(refusal).toMatchObject({
    code: "OUT_OF_MEMORY",
    details: { what: `an item of ${key(pushed)}` },
  });
  expect(await server.command("KEYS", `*k${pushed} *`)).toEqual([]);
  await using _dispatcher = await dispatch(queue);
  await eventually(async () => expect((await inspector.stats()).keys).toBe(0), {
    withinMs: 40_000,
  });
  expect(receiver.requests).toHaveLength(pushed);
  await queue.push(key(pushed), body);
  await eventually(() => expect(receiver.requests).toHaveLength(pushed + 1));
});

test("retries, parts, spoiled items and dead letters go their way without memory", async () => {
  const { queue, inspector, letters } = fresh();
  await using receiver = await Receiver.start();
  const key = (mergeKey: string) => keyOf({ mergeKey, method: "POST", url: receiver.url() }, "");
  let failures = 2;
  receiver.answer = ({ body }, response) => {
    if (body.includes("dies") || (body.includes("late") && failures-- > 0)) {
      response.statusCode = 500;
    }
    if (body === '["part",1,2]') {
      response.statusCode = 207;
      response.write('{"failed":[1]}');
    }
    response.end();
  };
  await inspector.pause();
  await queue.push(key("late"), '"late"');
  await queue.pushAll(key("part"), [{ body: '"part"' }, { body: "1" }, { body: "2" }]);
  for (let i = 0; i < 3; i++) await queue.push(key("dies"), `"dies ${i}"`);
  await queue.push(key("spoiled"), '"spoiled"');
  await server.command("RPUSH", queue.keys.queue(key("spoiled")), "{broken");
  await full();
  await inspector.resume();
  await using _dispatcher = await dispatch(queue, { attempts: 4 });
  await eventually(async () => expect((await inspector.stats()).keys).toBe(0));
  const bodies = receiver.requests
    .map(({ body }) => body)
    .filter((body) => !/dies|late/.test(body));
  expect(bodies.sort()).toEqual(['["part",1,2]', '["spoiled"]', "[1]"]);
  expect(receiver.requests.filter(({ body }) => body === '["late"]')).toHaveLength(3);
  const given = (await letters.list()).items;
  expect(given.map(({ items, reason }) => `${items} ${reason}`).sort()).toEqual([
    "1 not JSON",
    "3 the endpoint responded with 500, after 4 attempts",
  ]);
  const dead = given.find(({ items }) => items === 3);
  expect((await letters.items(dead?.id ?? "")).items).toHaveLength(3);
  expect(await letters.discard(dead?.id ?? "")).toBe(3);
});

test("a part of a key becomes a dead letter without memory, and what came later stays", async () => {
  const { queue, inspector, letters } = fresh();
  await using receiver = await Receiver.start();
  const key = keyOf({ mergeKey: "k", method: "POST", url: receiver.url() }, "");
  receiver.answer = async (_, response) => {
    if (receiver.requests.length === 1) {
      await limit("0");
      await queue.push(key, "2", { at: 4000000000000 });
      await full();
      response.statusCode = 410;
    }
    response.end();
  };
  await queue.push(key, "1");
  await full();
  await using _dispatcher = await dispatch(queue);
  await eventually(async () => expect((await letters.list()).items).toHaveLength(1));
  expect(await inspector.peek(key)).toMatchObject({ items: 1, at: 4000000000000 });
  expect(await inspector.sendNow(key)).toBe(1);
  await eventually(async () => expect((await letters.list()).items).toHaveLength(2));
});

test("the breaker opens, probes and closes without memory", async () => {
  const { queue, inspector, endpoints } = fresh();
  await using receiver = await Receiver.start();
  let broken = true;
  receiver.answer = (_, response) => {
    response.statusCode = broken ? 503 : 200;
    response.end();
  };
  await queue.push(keyOf({ mergeKey: "k", method: "POST", url: receiver.url() }, ""), "1");
  await full();
  await using _dispatcher = await dispatch(queue, { breaker: { threshold: 2, openMs: 100 } });
  await eventually(async () =>
    expect((await endpoints.list()).items[0]).toMatchObject({ breaker: "open" }),
  );
  broken = false;
  await eventually(async () => expect((await inspector.stats()).keys).toBe(0));
  expect((await endpoints.list()).items[0]).toMatchObject({ breaker: "closed" });
});

test("a worker with the bare actions goes on without memory", async () => {
  const { queue } = fresh();
  await queue.push("k", "1");
  await queue.push("k", "2");
  await full();
  expect(await queue.schedule()).toEqual({ key: "k", waitMs: 0 });
  const first = await queue.get("k", { number: 1, leaseMs: 5_000 });
  await queue.release("k", first?.token ?? "", { at: 1000, reason: "not now" });
  const again = await queue.get("k", { number: 1, leaseMs: 5_000 });
  expect(await queue.complete("k", again?.token ?? "")).toBe(1);
  await expect(queue.push("k", "3")).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
  const rest = await queue.get("k", { leaseMs: 5_000 });
  expect(rest?.items.map(({ body }) => String(body))).toEqual(["2"]);
  expect(await queue.complete("k", rest?.token ?? "")).toBe(0);
  await queue.close();
});

test("callbacks are stored and delivered although Redis has no memory left", async () => {
  await using receiver = await Receiver.start();
  const { queue } = fresh();
  const request = {
    ...{ callback: receiver.url("/callback"), failureCallback: receiver.url("/failed") },
    attempts: 1,
  };
  for (const path of ["/fine", "/sad"]) {
    const to = { mergeKey: "k", method: "POST", url: receiver.url(path) };
    await queue.push(keyOf(to, ""), "1", { request });
  }
  receiver.answer = ({ path }, response) => {
    response.statusCode = path === "/sad" ? 500 : 200;
    response.end();
  };
  await full();
  await using _dispatcher = await dispatch(queue);
  const paths = () => receiver.requests.map(({ path }) => path).toSorted();
  await eventually(() => expect(paths()).toEqual(["/callback", "/failed", "/fine", "/sad"]));
});
