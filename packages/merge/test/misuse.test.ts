// Deletions, replays and closes at bad moments, values of other programs, and misuse.
import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import {
  Attempts,
  type Batch,
  DeadLetters,
  Dispatcher,
  Endpoints,
  HttpDispatcher,
  Inspector,
  keyOf,
  MergeQueue,
} from "../src/index.ts";
import { QueueStore } from "../src/store/queue-store.ts";
import { at, HTTP, queuesForFile } from "./queues-for-file.ts";
import { Receiver } from "./receiver.ts";

const { server, redis, fresh } = await queuesForFile();
const LATER = 4_000_000_000_000;

test("after a DELETE during a delivery whose holder dies, later items keep their time", async () => {
  const queue = fresh();
  const inspector = new Inspector(queue);
  for (const key of ["a", "b"]) {
    await queue.push(key, "gone");
    await queue.get(key, { leaseMs: 50, token: "dies" });
    await inspector.remove(key);
    await queue.push(key, "later", { at: LATER });
  }
  // A worker that uses the plain actions finds nothing to do, and corrects the time.
  await eventually(async () => {
    expect(await queue.schedule()).not.toHaveProperty("key", expect.anything());
    expect((await inspector.peek("a")).at).toBe(LATER);
  });
  await queue.close();
  const seen: string[] = [];
  await queue.push("c", "gone");
  await queue.get("c", { leaseMs: 50, token: "dies" });
  await inspector.remove("c");
  await queue.push("c", "later", { at: LATER });
  await using _dispatcher = await new Dispatcher(queue, async ({ key }) => {
    seen.push(key);
  }).start();
  await eventually(async () => expect((await inspector.peek("c")).at).toBe(LATER));
  expect(seen).toEqual([]);
});

test("a DELETE during a delivery that fails leaves no retry behind", async () => {
  const queue = fresh();
  const inspector = new Inspector(queue);
  await queue.push("k", "gone");
  await queue.get("k", { leaseMs: 600_000, token: "t" });
  await inspector.remove("k");
  await queue.push("k", "new");
  await queue.release("k", "t", { at: LATER, reason: "it failed" });
  const { at: due = 0, error, attempts } = await inspector.peek("k");
  expect(due).toBeLessThan(LATER);
  expect({ error, attempts }).toEqual({ error: undefined, attempts: 0 });
});

test("replayed items that another program deleted do not fire the others early", async () => {
  const queue = fresh();
  const letters = new DeadLetters(queue);
  await letterOf(queue, "k");
  await queue.pushAll("k", [{ body: "a", at: LATER }, { body: "b" }]);
  await letters.replayAll();
  await server.command("DEL", `${queue.keys.queue("k")}:replay`);
  let calls = 0;
  await using _dispatcher = await new Dispatcher(queue, async () => {
    calls += 1;
  }).start();
  await eventually(async () => expect((await new Inspector(queue).peek("k")).at).toBe(LATER));
  expect(calls).toBe(0);
});

test("after a batch the time of the next one is what later pushes and replays find", async () => {
  const queue = fresh();
  const inspector = new Inspector(queue);
  await letterOf(queue, "k");
  await queue.push("k", "a");
  await queue.get("k", { leaseMs: 600_000, token: "t" });
  await queue.push("k", "b", { at: LATER });
  await queue.complete("k", "t");
  await queue.push("k", "c", { at: LATER - 5_000, update: "always" });
  await new DeadLetters(queue).replayAll();
  await queue.get("k", { leaseMs: 600_000, token: "t" });
  await queue.complete("k", "t");
  expect((await inspector.peek("k")).at).toBe(LATER - 5_000);
});

test("a key that was fetched meanwhile has all its starts again", async () => {
  const queue = new MergeQueue(redis, { prefix: "starts", startTimeoutMs: 1, maxStarts: 2 });
  await queue.push("k", "a");
  const started = () => eventually(async () => expect((await queue.schedule()).key).toBe("k"));
  const starts = () => server.command("HGET", `${queue.keys.queue("k")}:state`, "starts");
  await started();
  await eventually(async () => {
    await queue.schedule();
    expect(await starts()).toBe("1");
  });
  await queue.get("k", { leaseMs: 60_000, token: "t" });
  expect(await starts()).toBeNull();
  await queue.release("k", "t", { at: 1 });
  await queue.close();
});

test("a key that was fetched meanwhile is not buried as one that nobody fetches", async () => {
  const queue = fresh();
  await queue.push("k", "a");
  await queue.schedule();
  const given = { start: "1.000", letterId: "l", reason: "no" }; // an earlier start
  await new QueueStore(redis, queue.options).buryUnfetched("k", given);
  expect((await new Inspector(queue).peek("k")).items).toBe(1);
  expect((await new DeadLetters(queue).list()).items).toEqual([]);
  await queue.close();
});

test("what is pushed behind a deleted delivery outlives its lock", async () => {
  const queue = fresh();
  await queue.push("k", "gone");
  await queue.get("k", { leaseMs: 600_000, token: "t" });
  await new Inspector(queue).remove("k");
  const state = `${queue.keys.queue("k")}:state`;
  expect(await server.command("PTTL", state)).toBeGreaterThan(0);
  await queue.push("k", "new", { request: { attempts: 3 } });
  expect(await server.command("PTTL", state)).toBe(-1);
});

test("items behind a batch that died have no attempts yet", async () => {
  const queue = fresh();
  const store = new QueueStore(redis, queue.options);
  await queue.push("k", "a");
  await queue.get("k", { leaseMs: 600_000, token: "t" });
  await queue.push("k", "b", { at: LATER });
  await store.bury({ key: "k", token: "t" }, { letterId: "l", reason: "no" });
  const left = await new Inspector(queue).peek("k");
  expect(left).toMatchObject({ items: 1, attempts: 0, at: LATER, state: "waiting" });
});

test("close ends although a handler never does", async () => {
  const queue = fresh();
  let calls = 0;
  const never = () => {
    calls += 1;
    return new Promise<void>(() => {});
  };
  const dispatcher = await new Dispatcher(queue, never, { closeWithinMs: 1 }).start();
  await queue.push("k", "1");
  await eventually(() => expect(calls).toBe(1));
  await dispatcher.close();
  expect(dispatcher.state).toBe("closed");
}, 30_000);

test("letters that two callers replay at the same time are counted once", async () => {
  const queue = fresh();
  const letters = new DeadLetters(queue);
  const dead = { kind: "dead", reason: "no" } as const;
  const dispatcher = await new Dispatcher(queue, async () => dead).start();
  for (let i = 0; i < 10; i++) await queue.push(`k${i}`, "1");
  await eventually(async () => expect((await letters.list()).items).toHaveLength(10));
  await dispatcher.close();
  const both = await Promise.all([letters.replayAll(), letters.replayAll()]);
  expect(both.reduce((sum, each) => sum + each.letters, 0)).toBe(10);
});

test("a beforeDead that never ends neither holds its slot nor keeps the batch alive", async () => {
  const queue = fresh();
  const delivered: string[] = [];
  const errors: unknown[] = [];
  const handler = async ({ key }: Batch) => {
    if (key === "bad") throw new Error("refused");
    delivered.push(key);
  };
  const hangs = {
    concurrency: 1,
    attempts: 1,
    leaseMs: 400,
    beforeDead: () => new Promise<void>(() => {}),
  };
  await using dispatcher = new Dispatcher(queue, handler, hangs);
  dispatcher.on("error", (error) => errors.push(error));
  await dispatcher.start();
  await queue.push("bad", "1");
  await eventually(async () => expect((await new DeadLetters(queue).list()).items).toHaveLength(1));
  await queue.push("good", "1");
  await eventually(() => expect(delivered).toEqual(["good"]));
  expect(errors[0]).toMatchObject({ code: "TIMEOUT" });
});

test("values of other programs hide nothing in lists of endpoints, attempts and letters", async () => {
  const queue = fresh();
  const [endpoints, attempts, letters] = [
    new Endpoints(queue),
    new Attempts(queue),
    new DeadLetters(queue),
  ];
  const { prefix } = queue.options;
  const [good, odd] = ["http://good.example/", "http://odd.example/"];
  await endpoints.limit(good, { concurrency: 3 });
  await server.command("ZADD", `${prefix}:endpoints`, "1", "no url");
  await server.command("ZADD", `${prefix}:endpoints`, "2", odd);
  await server.command("SET", `${prefix}:endpoint:${odd}`, "foreign");
  expect((await endpoints.list()).items).toMatchObject([{ url: good, concurrency: 3 }]);
  await server.command("HSET", `${prefix}:endpoint:${good}`, "delivered", "x", "at", "x");
  expect((await endpoints.list()).items).toMatchObject([{ url: good, delivered: 0, at: 0 }]);
  for (const json of ["no JSON", "1", "{}", '{"key":1}', '{"key":"k","at":"x"}']) {
    await server.command("XADD", `${prefix}:attempts`, "*", "attempt", json);
  }
  expect((await attempts.list({ url: good })).items).toEqual([]);
  expect((await attempts.list()).items).toEqual([]);
  await server.command("ZADD", `${prefix}:dead`, "1", "odd");
  await server.command("HSET", `${prefix}:dead:odd`, "key", "k", "at", "x", "items", "x");
  expect((await letters.list()).items).toMatchObject([{ id: "odd", at: 0, items: 0 }]);
  await queue.push("k", "1", { at: LATER });
  await server.command("LSET", `${queue.keys.queue("k")}:items`, "0", "id when - -");
  const [item] = (await new Inspector(queue).peek("k")).oldest;
  expect(item).toMatchObject({ id: "id", pushedAt: 0 });
});

test("heads that no header can carry keep no batch back, and harm no endpoint", async () => {
  const queue = fresh();
  await using receiver = await Receiver.start();
  const single = keyOf({ mergeKey: "-s", method: "POST", url: receiver.url() }, "id");
  const keys = [at("k", receiver.url()), single];
  for (const key of keys) {
    await server.command("RPUSH", queue.keys.queue(key), "1");
    await server.command("RPUSH", `${queue.keys.queue(key)}:items`, "a\r\nb 1 1 - text/\r\nx");
    await server.command("ZADD", queue.keys.timer, "1", key);
  }
  await using _dispatcher = await new HttpDispatcher(queue, HTTP).start();
  await eventually(() =>
    expect(receiver.requests.map(({ body }) => body).sort()).toEqual(["1", "[1]"]),
  );
  for (const { headers } of receiver.requests) expect(headers["webhook-items"]).toBeUndefined();
  const types = receiver.requests.map(({ headers }) => headers["content-type"]).sort();
  expect(types).toEqual(["application/json", "application/octet-stream"]);
});

test("a request that cannot be sent is a dead letter at once, and no failure of its origin", async () => {
  const queue = fresh();
  await using receiver = await Receiver.start();
  const key = at("k", receiver.url());
  await queue.push(key, "1", { at: LATER });
  const state = `${queue.keys.queue(key)}:state`;
  await server.command("HSET", state, "batch", "1", "delivery", "bad\r\nid");
  await new Inspector(queue).sendNow(key);
  await using _dispatcher = await new HttpDispatcher(queue, HTTP).start();
  const letters = new DeadLetters(queue);
  await eventually(async () =>
    expect((await letters.list()).items).toMatchObject([
      { attempts: 1, reason: expect.stringContaining("webhook-id") },
    ]),
  );
  expect(await new Endpoints(queue).get(receiver.url())).toBeUndefined();
});

test("limits that are taken back make room for others", async () => {
  const queue = fresh();
  const endpoints = new Endpoints(queue);
  const url = "http://a.example/";
  await endpoints.limit(url, { concurrency: 1 });
  expect(await server.command("ZCARD", queue.keys.marked)).toBe(1);
  await endpoints.limit(url, {});
  expect(await server.command("ZCARD", queue.keys.marked)).toBe(0);
  await endpoints.rotateSecret(url);
  await endpoints.pause(url);
  await endpoints.removeSecrets(url);
  expect(await server.command("ZCARD", queue.keys.marked)).toBe(1); // it is still paused
  expect(await server.command("TTL", queue.keys.endpoint(url))).toBe(-1);
});

test("limits and filters with unknown names or wrong values are refused", async () => {
  const queue = fresh();
  const refused = { code: "INVALID_ARGUMENT" };
  const endpoints = new Endpoints(queue);
  for (const limits of [{ rate: 5 }, { ratePerSecond: "5" }, { ratePerSecond: 1e-300 }]) {
    const limited = endpoints.limit("http://a.example/", limits as { ratePerSecond?: number });
    await expect(limited).rejects.toMatchObject(refused);
  }
  const letters = new DeadLetters(queue);
  await letterOf(queue, "k");
  const typo = { urll: "http://a.example/" } as { url?: string };
  await expect(letters.discardAll(typo)).rejects.toMatchObject(refused);
  await expect(letters.replayAll(typo)).rejects.toMatchObject(refused);
  const [letter] = (await letters.list()).items;
  for (const maxBytes of [Number.NaN, 0, -1, Number.POSITIVE_INFINITY]) {
    await expect(letters.items(letter?.id ?? "", { maxBytes })).rejects.toMatchObject(refused);
  }
});

test("however much data a key has, a look at it is bounded", async () => {
  const queue = fresh();
  const inspector = new Inspector(queue);
  await queue.push("k", "1", { at: LATER, data: { small: "s" } });
  const data = `${queue.keys.queue("k")}:data`;
  for (let i = 0; i < 20; i++) await server.command("HSET", data, `big${i}`, "x".repeat(100_000));
  const peeked = await inspector.peek("k");
  expect(peeked.data.small).toBe("s");
  expect(Object.values(peeked.data).join("").length).toBeLessThanOrEqual(262_144);
  for (let i = 0; i < 1_100; i++) await server.command("HSET", data, `more${i}`, "x");
  expect(Object.keys((await inspector.peek("k")).data).length).toBeLessThanOrEqual(100);
});

/** Makes a dead letter of a key. */
async function letterOf(queue: MergeQueue, key: string): Promise<void> {
  const dead = { kind: "dead", reason: "no" } as const;
  await using _dispatcher = await new Dispatcher(queue, async () => dead).start();
  await queue.push(key, "old");
  await eventually(async () => expect((await new DeadLetters(queue).list()).items).toHaveLength(1));
  await eventually(async () => expect((await new Inspector(queue).peek(key)).items).toBe(0));
}

test("what is no AbortSignal is refused before a wait begins", async () => {
  const queue = fresh();
  for (const wrong of [null, {}, 5, new AbortController()]) {
    const options = { signal: wrong as AbortSignal };
    await expect(queue.wait(5, options)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    const following = new Attempts(queue).follow(options);
    await expect(following.next()).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  }
  await queue.close();
});

test.each(["bury", "complete"] as const)(
  "items that were replayed during a delivery are due when it ends with %s",
  async (end) => {
    const queue = fresh();
    const store = new QueueStore(redis, queue.options);
    const held = { key: "k", token: "t" };
    await letterOf(queue, "k");
    await queue.push("k", "a");
    await queue.get("k", { leaseMs: 600_000, token: "t" });
    await queue.push("k", "b", { at: LATER });
    await new DeadLetters(queue).replayAll();
    if (end === "complete") await store.complete(held);
    else await store.bury(held, { letterId: "l", reason: "no" });
    const { at: due = LATER, items } = await new Inspector(queue).peek("k");
    expect(items).toBe(2);
    expect(due).toBeLessThan(LATER);
    await queue.get("k", { number: 1, leaseMs: 600_000, token: "t" });
    await store.complete(held);
    expect((await new Inspector(queue).peek("k")).at).toBe(LATER);
  },
);

test("items that are taken out of a batch use up no attempt of the rest", async () => {
  const queue = fresh();
  const store = new QueueStore(redis, queue.options);
  await queue.pushAll("k", [{ body: "{" }, { body: "1" }]);
  await queue.get("k", { leaseMs: 600_000, token: "t" });
  const given = { letterId: "l", reason: "no", positions: [0] };
  await store.reject({ key: "k", token: "t" }, given);
  const left = await new Inspector(queue).peek("k");
  expect(left).toMatchObject({ items: 1, attempts: 0, state: "retrying" });
});

test("items behind a batch of which nothing is left keep their time", async () => {
  const queue = fresh();
  const store = new QueueStore(redis, queue.options);
  await queue.push("k", "{");
  await queue.get("k", { leaseMs: 600_000, token: "t" });
  await queue.push("k", "1", { at: LATER });
  const given = { letterId: "l", reason: "no", positions: [0] };
  await store.reject({ key: "k", token: "t" }, given);
  const left = await new Inspector(queue).peek("k");
  expect(left).toMatchObject({ items: 1, attempts: 0, at: LATER, state: "waiting" });
  expect((await new DeadLetters(queue).list({ key: "k" })).items).toMatchObject([{ id: "l" }]);
});

test("a dead letter that is discarded leaves nothing behind", async () => {
  const queue = fresh();
  await letterOf(queue, "k");
  expect(await new DeadLetters(queue).discardAll()).toEqual({ letters: 1, items: 1 });
  expect(await server.command("KEYS", `${queue.options.prefix}:*`)).toEqual([]);
});

test("what is replayed behind a deleted delivery outlives its lock", async () => {
  const queue = fresh();
  await letterOf(queue, "k");
  await queue.push("k", "gone");
  await queue.get("k", { leaseMs: 600_000, token: "t" });
  await new Inspector(queue).remove("k");
  await new DeadLetters(queue).replayAll();
  expect(await server.command("PTTL", `${queue.keys.queue("k")}:state`)).toBe(-1);
  expect((await new Inspector(queue).peek("k")).at).toBeGreaterThan(0); // also if the holder dies
  expect(await queue.complete("k", "t")).toBe(1);
});

test("send-now during a delivery fires the fresh items right after it", async () => {
  const queue = fresh();
  const inspector = new Inspector(queue);
  await queue.push("k", "a");
  await queue.get("k", { leaseMs: 600_000, token: "t" });
  await queue.push("k", "b", { at: LATER });
  expect(await inspector.sendNow("k")).toBe(2);
  expect(await queue.complete("k", "t")).toBe(1);
  expect((await inspector.peek("k")).at).toBeLessThan(LATER);
});
