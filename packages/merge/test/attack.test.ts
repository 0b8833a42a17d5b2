// Each test covers a defect of earlier code: new items during a retry, deletion
// and replay at bad moments, large keys, unusual members.
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterEach, describe, expect, test } from "vitest";
import {
  AddressGuard,
  DeadLetters,
  Dispatcher,
  EndpointQueue,
  Endpoints,
  HttpDispatcher,
  type HttpDispatcherOptions,
  Inspector,
  keyOf,
  MergeQueue,
} from "../src/index.ts";
import { QueueStore } from "../src/store/queue-store.ts";
import { Receiver } from "./receiver.ts";

const { server, redis } = await redisForFile();
let prefixes = 0;
const open: { close(): Promise<unknown> }[] = [];

afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

function fresh(options = {}) {
  prefixes += 1;
  const queue = new MergeQueue(redis, { prefix: `a${prefixes}`, ...options });
  const inspector = new Inspector(queue);
  return { queue, inspector, letters: new DeadLetters(queue), endpoints: new Endpoints(queue) };
}

async function deliver(queue: MergeQueue, options: HttpDispatcherOptions = {}) {
  const quick = { backoff: { delayMs: 20, maxMs: 20 }, breaker: { threshold: 1_000 } };
  const dispatcher = new HttpDispatcher(queue, { allow: ["loopback"], ...quick, ...options });
  open.push(await dispatcher.start());
  return dispatcher;
}

const at = (mergeKey: string, url: string) => keyOf({ mergeKey, method: "POST", url }, "");
const LATER = 4_000_000_000_000;

describe("retries", () => {
  test("pushes during an outage neither move a retry nor use up attempts", async () => {
    const { queue, inspector } = fresh();
    const times: number[] = [];
    const handler = async () => {
      times.push(performance.now());
      throw new Error("down");
    };
    const backoff = { kind: "fixed", delayMs: 60_000, jitter: 0 } as const;
    open.push(await new Dispatcher(queue, handler, { backoff }).start());
    await queue.push("k", "first");
    await eventually(async () => expect((await inspector.peek("k")).state).toBe("retrying"));
    const retry = (await inspector.peek("k")).at;
    for (let i = 0; i < 20; i++) await queue.push("k", "more", { update: "once" });
    for (let i = 0; i < 20; i++) await queue.push("k", "more", { update: "always" });
    const peeked = await inspector.peek("k");
    expect(peeked).toMatchObject({ at: retry, attempts: 1, items: 41 });
    expect(times).toHaveLength(1);
  });

  test.each(["retry", "partial"] as const)(
    "a %s waits as long as the backoff says",
    async (kind) => {
      const { queue, inspector } = fresh();
      const verdict =
        kind === "retry"
          ? ({ kind, reason: "no" } as const)
          : ({ kind, failed: [0], reason: "no" } as const);
      const backoff = { kind: "exponential", delayMs: 50_000, factor: 2, jitter: 0 } as const;
      open.push(await new Dispatcher(queue, async () => verdict, { backoff }).start());
      await queue.pushAll("k", [{ body: "a" }, { body: "b" }]);
      for (const expected of [50_000, 100_000]) {
        const waits = await eventually(async () => {
          const { at: next = 0, state, attempts } = await inspector.peek("k");
          expect(state).toBe("retrying");
          expect(attempts).toBe(expected / 50_000);
          return next - (await inspector.now());
        });
        expect(waits).toBeGreaterThan(expected - 15_000);
        expect(waits).toBeLessThanOrEqual(expected);
        await inspector.sendNow("k");
      }
    },
  );

  test("a wrong token changes nothing in settle, reject, bury, release and complete", async () => {
    const { queue } = fresh();
    const store = new QueueStore(redis, queue.options);
    await queue.pushAll("k", [{ body: "a" }, { body: "b" }]);
    await queue.get("k", { leaseMs: 60_000, token: "right" });
    const dump = async () => {
      const names = (await server.command("KEYS", `${queue.options.prefix}:*`)) as string[];
      return Promise.all(names.sort().map((name) => server.command("OBJECT", "ENCODING", name)));
    };
    const before = [
      await dump(),
      await server.command("HGETALL", `${queue.keys.queue("k")}:state`),
    ];
    const held = { key: "k", token: "wrong" };
    const reason = "no";
    const lost = { code: "LEASE_LOST" };
    const settled = store.settle(held, { delayMs: 1, batchId: "b", reason, failed: [0] });
    await expect(settled).rejects.toMatchObject(lost);
    const rejected = store.reject(held, { letterId: "l", reason, positions: [0] });
    await expect(rejected).rejects.toMatchObject(lost);
    await expect(store.bury(held, { letterId: "l", reason })).rejects.toMatchObject(lost);
    await expect(queue.release("k", "wrong")).rejects.toMatchObject(lost);
    await expect(queue.complete("k", "wrong")).rejects.toMatchObject(lost);
    const after = [await dump(), await server.command("HGETALL", `${queue.keys.queue("k")}:state`)];
    expect(after).toEqual(before);
    expect(await server.command("GET", `${queue.keys.queue("k")}:locker`)).toBe("right");
  });

  test("a lock that ends in this millisecond does not postpone its key by a lease", async () => {
    const { queue, inspector } = fresh();
    const store = new QueueStore(redis, queue.options);
    await queue.push("k", "a", { at: 1 });
    let locked = 0;
    for (let i = 0; i < 400 && locked < 20; i++) {
      await server.command("SET", `${queue.keys.queue("k")}:locker`, "theirs", "PX", 1);
      const got = await store.get({
        ...{ key: "k", token: "t", batchId: "b", resume: true, leaseMs: 60_000 },
        ...{ maxItems: 10, maxBytes: 1_000, reservation: { reserved: "", score: "1" } },
      });
      if (got.status === "ok") {
        await queue.release("k", "t", { at: 1, attempted: false });
        continue;
      }
      locked += 1;
      const { at: next = 0 } = await inspector.peek("k");
      expect(next - (await inspector.now())).toBeLessThan(1_000);
    }
  });
});

describe("deletion and replay", () => {
  test("after a DELETE during a delivery the next push is not late", async () => {
    const { queue, inspector } = fresh();
    const seen: string[] = [];
    let finish = () => {};
    const handler = async ({ items }: { items: readonly { body: Buffer }[] }) => {
      seen.push(String(items[0]?.body));
      if (seen.length === 1) await new Promise<void>((resolve) => (finish = resolve));
    };
    open.push(await new Dispatcher(queue, handler, { leaseMs: 600_000 }).start());
    await queue.push("k", "old");
    await eventually(() => expect(seen).toEqual(["old"]));
    expect(await inspector.remove("k")).toEqual({ deleted: 1, sending: 1 });
    await queue.push("k", "new");
    expect(seen).toEqual(["old"]);
    finish();
    await eventually(() => expect(seen).toEqual(["old", "new"]));
    await eventually(async () => expect((await inspector.stats()).keys).toBe(0));
    const left = await server.command("KEYS", `${queue.keys.queue("k")}*`);
    expect(left).toEqual([]);
  });

  test("a deleted key whose holder dies leaves nothing behind", async () => {
    const { queue, inspector } = fresh();
    await queue.push("k", "a");
    await queue.get("k", { leaseMs: 50 });
    await inspector.remove("k");
    await eventually(async () =>
      expect(await server.command("KEYS", `${queue.keys.queue("k")}*`)).toEqual([]),
    );
  });

  test("a replay comes before newer items and leaves their time alone", async () => {
    const { queue, inspector, letters } = fresh();
    let broken = true;
    const seen: string[] = [];
    const handler = async ({ items }: { items: readonly { body: Buffer }[] }) => {
      if (broken) return { kind: "dead", reason: "no" } as const;
      seen.push(items.map(({ body }) => String(body)).join());
      return undefined;
    };
    open.push(await new Dispatcher(queue, handler).start());
    for (const body of ["a", "b"]) {
      await queue.pushAll("k", [{ body }, { body: `${body}2` }]);
      await eventually(async () => expect((await inspector.stats()).keys).toBe(0));
    }
    broken = false;
    await queue.push("k", "tomorrow", { at: LATER });
    expect(await letters.replayAll()).toEqual({ letters: 2, items: 4 });
    await eventually(() => expect(seen.join().split(",")).toEqual(["a", "a2", "b", "b2"]));
    await eventually(async () =>
      expect(await inspector.peek("k")).toMatchObject({ items: 1, at: LATER, state: "waiting" }),
    );
    await inspector.sendNow("k");
    await eventually(() => expect(seen.at(-1)).toBe("tomorrow"));
  });

  test("an idempotency key is refused with another body, and stores again after a deletion", async () => {
    const { queue, inspector } = fresh();
    const options = { idempotencyKey: "once", at: LATER };
    const first = await queue.push("k", "a", options);
    expect(await queue.push("k", "a", options)).toEqual(first);
    await expect(queue.push("k", "b", options)).rejects.toMatchObject({
      code: "IDEMPOTENCY_MISMATCH",
    });
    await inspector.remove("k");
    const second = await queue.push("k", "a", options);
    expect(second.id).not.toBe(first.id);
    expect((await inspector.peek("k")).items).toBe(1);
    expect(await queue.push("k", "a", options)).toEqual(second);
  });

  test("an idempotency key stores again after the deletion of a replayed dead letter", async () => {
    const { queue, inspector, letters } = fresh();
    const options = { idempotencyKey: "once" };
    await queue.push("k", "a", options);
    const dispatcher = new Dispatcher(queue, async () => ({ kind: "dead", reason: "no" }));
    await dispatcher.start();
    await eventually(async () => expect((await letters.list()).items).toHaveLength(1));
    await dispatcher.close();
    await letters.replayAll();
    expect(await inspector.remove("k")).toMatchObject({ deleted: 1 });
    await queue.push("k", "a", options);
    expect((await inspector.peek("k")).items).toBe(1);
  });
});

describe("bounds", () => {
  test("100 MB in one key: batches, pages, replay and deletion are bounded", async () => {
    const { queue, inspector, letters } = fresh({ maxBytes: 1_048_576 });
    const body = Buffer.alloc(1_000_000, "x");
    await inspector.pause();
    for (let i = 0; i < 100; i++) await queue.push("k", body);
    const peeked = await inspector.peek("k", { limit: 500 });
    expect(peeked.oldest).toHaveLength(1);
    expect(peeked.oldest[0]).toMatchObject({ size: 1_000_000 });
    expect(peeked.oldest[0]?.body.length).toBe(262_144);
    expect(peeked).toMatchObject({ items: 100, cursor: "1" });
    const batch = await queue.get("k", { leaseMs: 60_000 });
    expect(batch?.items).toHaveLength(8);
    await queue.release("k", batch?.token ?? "", { at: 1 });
    let batches = 0;
    const handler = async () =>
      batches++ < 50 ? undefined : ({ kind: "dead", reason: "no" } as const);
    const dispatcher = await new Dispatcher(queue, handler).start();
    await inspector.resume();
    await eventually(async () => expect((await inspector.stats()).keys).toBe(0), {
      withinMs: 45_000,
    });
    await dispatcher.close();
    await letters.replayAll();
    expect((await inspector.remove("k")).deleted).toBeGreaterThan(10);
  }, 60_000);

  test("thousands of data fields and items survive burial and replay", async () => {
    const { queue, inspector, letters } = fresh();
    const data = Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`f${i}`, "v"]));
    await queue.push("k", "first", { data });
    await expect(
      queue.push("k", "x", {
        data: { ...Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`g${i}`, "v"])) },
      }),
    ).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect((await inspector.peek("k")).items).toBe(1);
    const words = Array.from({ length: 8_000 }, (_, i) => [`h${i}`, "v"]).flat();
    await server.command("HSET", `${queue.keys.queue("k")}:data`, ...words); // written by another program
    const foreign = Array.from({ length: 3_000 }, (_, i) => `"${i}"`);
    await server.command("RPUSH", queue.keys.queue("k"), ...foreign);
    const handler = async () => ({ kind: "dead", reason: "no" }) as const;
    const dispatcher = await new Dispatcher(queue, handler).start();
    await eventually(async () => expect((await inspector.stats()).keys).toBe(0));
    await dispatcher.close();
    const items = (await letters.list()).items.reduce((sum, letter) => sum + letter.items, 0);
    expect(items).toBe(3_001);
    expect(await letters.replayAll()).toMatchObject({ items: 3_001 });
    expect((await inspector.peek("k")).items).toBe(3_001);
    const fields = await server.command("HLEN", `${queue.keys.queue("k")}:data`);
    expect(fields).toBe(8_900);
  });

  test("a key of a wrong type fails a push whole", async () => {
    const { queue } = fresh();
    for (const name of ["", ":items", ":state"]) {
      await server.command("SET", `${queue.keys.queue("k")}${name}`, "odd");
      const before = await server.command("KEYS", `${queue.options.prefix}:*`);
      await expect(queue.push("k", "a")).rejects.toMatchObject({ code: "SERVER_REPLY" });
      expect(await server.command("KEYS", `${queue.options.prefix}:*`)).toEqual(before);
      await server.command("DEL", `${queue.keys.queue("k")}${name}`);
    }
  });

  test("one odd member of the timer hides no other key", async () => {
    const { queue, inspector } = fresh();
    await queue.push("fine", "1", { at: LATER });
    await server.command("ZADD", queue.keys.timer, "1e300", "odd:data", "5", "wrong");
    await server.command("SET", queue.keys.queue("wrong"), "no list");
    const { items } = await inspector.list();
    expect(Object.fromEntries(items.map(({ key, state }) => [key, state]))).toEqual({
      fine: "waiting",
      "odd:data": "broken",
      wrong: "broken",
    });
  });

  test("a search returns no more than its limit, and all in the end", async () => {
    const { queue, inspector } = fresh();
    for (let i = 0; i < 60; i++) await queue.push(`key${i}`, "x", { at: LATER });
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await inspector.list({ search: "key", limit: 7, cursor });
      expect(page.items.length).toBeLessThanOrEqual(7);
      found.push(...page.items.map(({ key }) => key));
      cursor = page.cursor;
    } while (cursor !== undefined);
    expect(new Set(found).size).toBe(60);
    for (const wrong of ["99999999999999999999", "-1", "x", "1.1.1"]) {
      const list = inspector.list({ search: "key", cursor: wrong });
      await expect(list).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
  });

  test("times beyond the year 9999 are refused", async () => {
    const { queue } = fresh();
    for (const wrong of [1e15, Number.POSITIVE_INFINITY, Number.NaN, 1e21, new Date(8.64e15)]) {
      const push = queue.push("k", "a", { at: wrong });
      await expect(push).rejects.toMatchObject({ code: "INVALID_ARGUMENT", argument: "at" });
    }
  });

  test("old and surplus dead letters are deleted, and records of gone endpoints expire", async () => {
    const { queue, inspector, letters } = fresh();
    await using receiver = await Receiver.start();
    receiver.answer = (_, response) => {
      response.statusCode = 410;
      response.end();
    };
    await deliver(queue);
    for (let i = 0; i < 5; i++) await queue.push(at(`k${i}`, receiver.url()), "1");
    await eventually(async () => expect((await inspector.stats()).deadLetters).toBe(5));
    const ttl = await server.command("PTTL", queue.keys.endpoint(receiver.url()));
    expect(ttl).toBeGreaterThan(0);
    await letters.trim({ maxAgeMs: 3_600_000, maxCount: 3 });
    expect((await letters.list()).items).toHaveLength(3);
    await letters.trim({ maxAgeMs: 0, maxCount: 3 });
    expect((await letters.list()).items).toHaveLength(0);
  });
});

test("an endpoint has one spelling, whoever writes it", async () => {
  const { endpoints } = fresh();
  await endpoints.pause("http://A.example.com:80");
  expect((await endpoints.list()).items).toMatchObject([{ url: "http://a.example.com/" }]);
  await endpoints.enable("http://a.example.com/");
  expect((await endpoints.list()).items).toEqual([]);
});

test("addresses that hide another one, and metadata addresses, are refused", () => {
  const guard = new AddressGuard(["loopback"]);
  const refused = [
    "[::ffff:0:127.0.0.1]",
    "[4000::1]",
    "[::ffff:10.0.0.1]",
    "[64:ff9b::a00:1]",
    "168.63.129.16",
    "100.100.100.200",
    "[fd00:ec2::254]",
    "169.254.169.254",
  ];
  for (const host of refused) {
    expect(() => guard.checkLiteral(`http://${host}/`), host).toThrow("must not be called");
  }
  for (const host of ["[::ffff:127.0.0.1]", "127.0.0.1", "[::1]", "8.8.8.8", "[2606:4700::1]"]) {
    expect(() => guard.checkLiteral(`http://${host}/`), host).not.toThrow();
  }
});

test("a push through an EndpointQueue checks the address, the body and its callbacks", async () => {
  const { queue } = fresh();
  const endpoints = new EndpointQueue(queue, new AddressGuard());
  expect(() => endpoints.destination({ mergeKey: "k", url: "http://10.0.0.1/" })).toThrow("called");
  const to = endpoints.destination({ mergeKey: "k", url: "https://example.com" });
  await expect(endpoints.push(to, "{")).rejects.toMatchObject({ argument: "body" });
  const callback = "http://127.0.0.1/";
  const push = endpoints.push(to, "1", { request: { callback } });
  await expect(push).rejects.toMatchObject({ code: "BLOCKED_ENDPOINT" });
  for (const headers of [{ host: "x" }, { "webhook-id": "x" }, { a: "b\r\nc: d" }, { "": "x" }]) {
    const wrong = endpoints.push(to, "1", { request: { headers } });
    await expect(wrong).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  }
});
