import { execFile } from "node:child_process";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { connect, type Redis } from "@ropeway/core";
import { encodeService, HttpDispatcher, Inspector, MergeQueue } from "@ropeway/merge";
import { eventually, type RedisServer, startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { TokenGuard } from "../src/access/token-guard.ts";
import { MergeServer } from "../src/index.ts";

const run = promisify(execFile);

let server: RedisServer;
let redis: Redis;
let queue: MergeQueue;
let service: MergeServer;
let receiver: Server;
let hook: string;
const received: { method: string; path: string; type: string; body: string }[] = [];

beforeAll(async () => {
  server = await startRedis({ appendonly: true });
  redis = await connect(server.url);
  queue = new MergeQueue(redis);
  service = await new MergeServer(queue, {
    port: 0,
    allow: ["loopback"],
    maxBodyBytes: 100_000,
  }).start();
  receiver = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    received.push({
      method: request.method ?? "",
      path: request.url ?? "",
      type: request.headers["content-type"] ?? "",
      body: Buffer.concat(chunks).toString("utf8"),
    });
    response.end();
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  hook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/v3/notifier/cross/digest`;
});

afterAll(async () => {
  receiver.closeAllConnections();
  await new Promise((resolve) => receiver.close(resolve));
  await service.close();
  await redis.close();
  await server.close();
});

beforeEach(async () => {
  received.length = 0;
  await server.command("FLUSHALL");
});

const padded = (url: string) =>
  Buffer.from(url).toString("base64").replaceAll("+", "-").replaceAll("/", "_");
const path = (key: string, url = hook) => `${service.url}/v3/queue/${key}/POST/${padded(url)}`;
const curl = async (...args: string[]) => JSON.parse((await run("curl", ["-sS", ...args])).stdout);
const post = (url: string, body: string | Buffer = "{}", init: RequestInit = {}) =>
  fetch(url, { method: "POST", body, ...init } as RequestInit);
// biome-ignore lint/suspicious/noExplicitAny: answers are looked at, not typed
const json = async (answer: Response | Promise<Response>): Promise<any> => (await answer).json();
const now = () => Date.now() / 1_000;
const stored = async () => ((await server.command("KEYS", "*")) as string[]).length;

describe("the seed's curl lines", () => {
  test("two pushes with update=always fire once, at the later time, in order", async () => {
    await using _ = await new HttpDispatcher(queue, { allow: ["loopback"] }).start();
    const [first, second] = [now() + 2, now() + 2.5];
    const item = (n: number) => JSON.stringify({ to: { identity_id: 789 }, cross_id: 123, n });
    const answer = await curl(
      `${path("cross123_789")}?update=always&ontime=${first}`,
      "-d",
      item(1),
    );
    expect(answer).toMatchObject({ key: "cross123_789", items: 1 });
    expect(answer.ontime).toBeCloseTo(first, 2);
    await curl(`${path("cross123_789")}?update=always&ontime=${second}`, "-d", item(2));
    await eventually(() => expect(received).toHaveLength(1));
    expect(now()).toBeGreaterThanOrEqual(second - 0.05);
    expect(received[0]).toEqual({
      method: "POST",
      path: "/v3/notifier/cross/digest",
      type: "application/json",
      body: `[${item(1)},${item(2)}]`,
    });
    await eventually(async () => expect((await new Inspector(queue).stats()).keys).toBe(0));
    expect(received).toHaveLength(1);
  });

  test("update=once keeps the first time", async () => {
    const first = await curl(`${path("cross123_789")}?update=once&ontime=4000000000`, "-d", "{}");
    const second = await curl(`${path("cross123_789")}?update=once&ontime=4100000000`, "-d", "{}");
    const third = await curl(`${path("cross123_789")}?ontime=4200000000`, "-d", "{}");
    expect([first, second, third].map(({ ontime }) => ontime)).toEqual(
      Array(3).fill(4_000_000_000),
    );
    expect(third.items).toBe(3);
  });

  test("DELETE removes what is queued, and deleting nothing is a success", async () => {
    await curl(`${path("cross123_789")}?ontime=4000000000`, "-d", "{}");
    expect(await curl(path("cross123_789"), "-X", "DELETE")).toEqual({ deleted: 1 });
    expect(await curl(path("cross123_789"), "-X", "DELETE")).toEqual({ deleted: 0 });
    expect(await stored()).toBe(0);
  });

  test("keys with - arrive one by one, each body alone, whatever their length", async () => {
    await using _ = await new HttpDispatcher(queue, { allow: ["loopback"] }).start();
    for (const key of ["-123", "-job", "-"]) {
      for (const n of [1, 2]) await curl(path(key), "-d", `{"key":"${key}","n":${n}}`);
    }
    await eventually(() => expect(received).toHaveLength(6));
    expect(received.map(({ body }) => body).sort()).toEqual(
      ["-", "-123", "-job"].flatMap((key) => [1, 2].map((n) => `{"key":"${key}","n":${n}}`)),
    );
    expect(new Set(received.map(({ type }) => type))).toEqual(new Set(["application/json"]));
  });

  test("every - item has a time of its own, and DELETE takes them all", async () => {
    await curl(`${path("-")}?ontime=4000000000`, "-d", "1");
    const later = await curl(`${path("-")}?ontime=4100000000&update=always`, "-d", "2");
    expect(later.ontime).toBe(4_100_000_000);
    const peeked = await curl(path("-"));
    expect(peeked.batches.map((each: { ontime: number }) => each.ontime).sort()).toEqual([
      4_000_000_000, 4_100_000_000,
    ]);
    await curl(`${path("-x")}?ontime=4000000000`, "-d", "1");
    expect(await curl(path("-"), "-X", "DELETE")).toEqual({ deleted: 2 });
    expect((await curl(path("-x"))).items).toBe(1);
  });
});

describe("a push", () => {
  test("GET shows what is queued without touching it", async () => {
    await post(`${path("k")}?ontime=4000000000`, '{"a":1}');
    await post(`${path("k")}?ontime=4000000000`, '{"a":2}');
    const peeked = await json(fetch(path("k")));
    expect(peeked).toMatchObject({ key: "k", method: "POST", service: hook, items: 2 });
    expect(peeked.batches[0]).toMatchObject({ ontime: 4_000_000_000, state: "waiting" });
    expect(peeked.batches[0].oldest.map(({ body }: { body: string }) => body)).toEqual([
      '{"a":1}',
      '{"a":2}',
    ]);
    expect(await json(fetch(path("nothing")))).toMatchObject({ items: 0, batches: [] });
  });

  test("a merge key is taken literally, percent-encoding apart", async () => {
    const keys = ["a%2Fb", "%E4%BD%A0", "x%20y", "a,b", "k:data", "a".repeat(900)];
    for (const key of keys) {
      const answer = await post(`${path(key)}?ontime=4000000000`);
      expect(answer.status).toBe(202);
      expect((await json(answer)).key).toBe(decodeURIComponent(key));
    }
    expect(await server.command("ZCARD", queue.keys.timer)).toBe(keys.length);
  });

  test("maxwait bounds an always queue of this request", async () => {
    const until = Math.round(now()) + 5;
    await post(`${path("k")}?ontime=${until - 4}&update=always&maxwait=5`);
    const answer = await json(post(`${path("k")}?ontime=4000000000&update=always`));
    expect(Math.abs(answer.ontime - until)).toBeLessThan(2);
  });

  test("bytes that are not JSON travel under a - key with their type", async () => {
    await using _ = await new HttpDispatcher(queue, { allow: ["loopback"] }).start();
    const headers = { "content-type": "text/csv" };
    expect((await post(path("-csv"), "a;b\n1;2", { headers })).status).toBe(202);
    await eventually(() => expect(received).toHaveLength(1));
    expect(received[0]).toMatchObject({ type: "text/csv", body: "a;b\n1;2" });
  });

  test("the same Idempotency-Key stores once, also for - keys", async () => {
    for (const key of ["k", "-k"]) {
      const headers = { "idempotency-key": "abc-1" };
      const url = `${path(key)}?ontime=4000000000`;
      const first = await json(post(url, "1", { headers }));
      const again = await json(post(url, "1", { headers }));
      expect(again).toEqual(first);
      expect((await json(fetch(path(key)))).items).toBe(1);
    }
  });

  test("an Idempotency-Key is refused with another body, and stores again after a DELETE", async () => {
    for (const key of ["k", "-k"]) {
      const headers = { "idempotency-key": "abc-2" };
      const url = `${path(key)}?ontime=4000000000`;
      await json(post(url, "1", { headers }));
      const other = await post(url, "2", { headers });
      expect(other.status).toBeGreaterThanOrEqual(400);
      expect(other.status).toBeLessThan(500);
      expect(await json(fetch(path(key), { method: "DELETE" }))).toEqual({ deleted: 1 });
      expect((await post(url, "2", { headers })).status).toBe(202);
      expect((await json(fetch(path(key)))).items).toBe(1);
    }
  });

  test.each(["k", "-k"])(
    "GET of %s shows at most 1 MiB at a time, and all in the end",
    async (key) => {
      const body = JSON.stringify("x".repeat(90_000));
      for (let i = 0; i < 25; i++) await post(`${path(key)}?ontime=4000000000`, body);
      let seen = 0;
      let cursor: string | undefined;
      for (let pages = 0; pages < 10; pages++) {
        const query = cursor === undefined ? "" : `?cursor=${encodeURIComponent(cursor)}`;
        const page = await json(fetch(`${path(key)}${query}`));
        const sizes = page.batches.flatMap(({ oldest }: { oldest: { body: string }[] }) =>
          oldest.map((item) => item.body.length),
        );
        expect(sizes.reduce((sum: number, size: number) => sum + size, 0)).toBeLessThan(1_200_000);
        seen += sizes.length;
        cursor = page.cursor;
        if (cursor === undefined) break;
      }
      expect(cursor).toBeUndefined();
      expect(seen).toBe(25);
    },
  );
});

describe("bad requests", () => {
  const bad = (parameter: string, url: () => string, body = "{}") => ({ parameter, url, body });
  test.each([
    bad("merge_key", () => `${service.url}/v3/queue//POST/${padded(hook)}`),
    bad("merge_key", () => `${service.url}/v3/queue/%FF/POST/${padded(hook)}`),
    bad("method", () => `${service.url}/v3/queue/k`),
    bad("method", () => `${service.url}/v3/queue/k/BREW/${padded(hook)}`),
    bad("service", () => `${service.url}/v3/queue/k/POST`),
    bad("service", () => `${service.url}/v3/queue/k/POST/`),
    bad("service", () => `${service.url}/v3/queue/k/POST/!!!`),
    bad("service", () => path("k", "ftp://example.com/x")),
    bad("service", () => path("k", "javascript:alert(1)")),
    bad("service", () => path("k", "http://user:secret@example.com/")),
    bad("service", () => path("k", "http://169.254.169.254/latest/meta-data")),
    bad("service", () => path("k", "http://10.0.0.1/")),
    bad("update", () => `${path("k")}?update=sometimes`),
    bad("update", () => `${path("k")}?update=`),
    bad("update", () => `${path("k")}?update=once&update=always`),
    bad("ontime", () => `${path("k")}?ontime=tomorrow`),
    bad("ontime", () => `${path("k")}?ontime=`),
    bad("ontime", () => `${path("k")}?ontime=1366614150000`),
    bad("ontime", () => `${path("k")}?ontime=Infinity`),
    bad("maxwait", () => `${path("k")}?maxwait=long`),
    bad("body", () => path("k"), "{not json"),
    bad("body", () => path("k"), ""),
    bad("body", () => path("k"), '{"a":1}{"b":2}'),
  ])(
    "a wrong $parameter is named and nothing is stored ($body)",
    async ({ parameter, url, body }) => {
      const answer = await post(url(), body);
      expect(answer.status).toBe(400);
      expect(answer.headers.get("content-type")).toContain("application/problem+json");
      expect(await answer.json()).toMatchObject({ status: 400, parameter });
      expect(await stored()).toBe(0);
    },
  );

  test("what is wrong with a body is told, also far behind its beginning", async () => {
    const answer = await post(path("k"), `{"to": "${"x".repeat(100)}", "id": ...}`);
    expect((await json(answer)).detail).toMatch(/but must be JSON \(Unexpected token.*\)$/);
  });

  test("a body that is not UTF-8 is not JSON", async () => {
    const answer = await post(path("k"), Buffer.from([0x22, 0xff, 0x22]));
    expect(answer.status).toBe(400);
    expect((await json(answer)).detail).toContain("not UTF-8");
    expect(await stored()).toBe(0);
  });

  test("a body over the limit is 413", async () => {
    const answer = await post(path("k"), JSON.stringify("x".repeat(200_000)));
    expect(answer.status).toBe(413);
    expect(await answer.json()).toMatchObject({ code: "BODY_TOO_LARGE" });
    expect(await stored()).toBe(0);
  });

  test("a body over the limit whose length was not announced is 413", async () => {
    const chunk = Buffer.alloc(60_000, " ");
    const body = new ReadableStream({
      start(controller) {
        for (let i = 0; i < 2; i++) controller.enqueue(chunk);
        controller.enqueue(Buffer.from("{}"));
        controller.close();
      },
    });
    const init = { method: "POST", body, duplex: "half" } as RequestInit;
    const answer = await fetch(path("k"), init);
    expect(answer.status).toBe(413);
    expect(await stored()).toBe(0);
  });

  test.each(["PUT", "PATCH"])("%s is 405 and says what is possible", async (method) => {
    const answer = await fetch(path("k"), { method, body: "{}" });
    expect(answer.status).toBe(405);
    expect(answer.headers.get("allow")).toBe("GET, HEAD, POST, DELETE");
    expect(await answer.json()).toMatchObject({ code: "METHOD_NOT_ALLOWED" });
  });

  test("anything outside the queue is 404", async () => {
    expect((await fetch(`${service.url}/`)).status).toBe(404);
    expect((await fetch(`${service.url}/v3/other`)).status).toBe(404);
  });

  test("a browser on another site is refused", async () => {
    const answer = await post(path("k"), "{}", { headers: { origin: "https://evil.example" } });
    expect(answer.status).toBe(403);
    const sneaky = await post(path("k"), "{}", { headers: { "sec-fetch-site": "cross-site" } });
    expect(sneaky.status).toBe(403);
    expect(await stored()).toBe(0);
  });
});

test("with tokens, a request needs one of them", async () => {
  const tokens = ["open-sesame-1", "open-sesame-2"];
  await using guarded = await new MergeServer(queue, {
    port: 0,
    tokens,
    allow: ["loopback"],
  }).start();
  const url = `${guarded.url}/v3/queue/k/POST/${encodeService(hook)}?ontime=4000000000`;
  expect((await post(url)).status).toBe(401);
  expect((await post(url, "{}", { headers: { authorization: "Bearer wrong" } })).status).toBe(401);
  const headers = { authorization: `Bearer ${tokens[1]}` };
  expect((await post(url, "{}", { headers })).status).toBe(202);
});

test("guesses of a token are throttled by the address they come from", async () => {
  await using guarded = await new MergeServer(queue, { port: 0, tokens: ["right"] }).start();
  const spy = vi.spyOn(TokenGuard.prototype, "refusal");
  try {
    await post(`${guarded.url}/v3/queue/k/POST/x`);
    expect(spy.mock.calls).toEqual([[undefined, "127.0.0.1"]]);
  } finally {
    spy.mockRestore();
  }
});

test("a server that is paused refuses pushes until it is resumed", async () => {
  const url = `${path("k")}?ontime=4000000000`;
  await service.pause();
  const refused = await post(url);
  expect(refused.status).toBe(503);
  expect(await json(refused)).toMatchObject({ code: "OVERLOADED" });
  expect(await stored()).toBe(0);
  await service.resume();
  expect((await post(url)).status).toBe(202);
});

test("a Redis without memory is 503 and stores nothing; with memory it goes on", async () => {
  await server.command("CONFIG", "SET", "maxmemory", "1");
  const refused = await post(path("k"));
  expect(refused.status).toBe(503);
  expect(refused.headers.get("retry-after")).toBe("5");
  expect(await json(refused)).toMatchObject({ status: 503, code: "OUT_OF_MEMORY" });
  expect(await stored()).toBe(0);
  await server.command("CONFIG", "SET", "maxmemory", "0");
  expect((await post(`${path("k")}?ontime=4000000000`)).status).toBe(202);
});

test("Redis down is 503 with Retry-After, and the repeated push is stored once", async () => {
  const headers = { "idempotency-key": "survives" };
  const url = `${path("k")}?ontime=4000000000`;
  await server.kill9();
  await eventually(() => expect(redis.connected).toBe(false));
  const refused = await post(url, "1", { headers });
  expect(refused.status).toBe(503);
  expect(refused.headers.get("retry-after")).toBe("1");
  expect(await refused.json()).toMatchObject({ status: 503, code: "NOT_CONNECTED" });
  await server.start();
  await eventually(async () => {
    expect((await post(url, "1", { headers })).status).toBe(202);
    expect((await post(url, "1", { headers })).status).toBe(202);
  });
  expect(await server.command("LLEN", queue.keys.queue(`k ${hook} POST`))).toBe(1);
});
