// The acceptance cases of the documented Python library, and every row of its table of bugs with the correct
// behaviour: exact scores, lengths, keys and messages in Redis.
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { Inspector, MergeQueue } from "../src/index.ts";

const { server, redis } = await redisForFile();
const queue = new MergeQueue(redis, { prefix: "p" });

afterAll(() => queue.close());

beforeEach(() => server.command("FLUSHALL"));

const score = async (key = "k") => {
  const text = await server.command("ZSCORE", "p:timer", key);
  return text === null ? null : Number(text);
};
const length = (key = "k") => server.command("LLEN", `p:queue:${key}`);
const list = (key = "k") => server.command("LRANGE", `p:queue:${key}`, 0, -1);
const exists = (name: string) => server.command("EXISTS", `p:queue:k:${name}`);
const texts = (items: readonly { body: Buffer }[] | undefined) =>
  items?.map(({ body }) => String(body));
const redisNow = async () => {
  const [s, us] = (await server.command("TIME")) as string[];
  return Number(s) + Number(us) / 1e6;
};

async function pushTen(update: "always" | "once" = "always") {
  for (let i = 0; i < 10; i++) {
    await queue.push("k", `task${i}`, {
      at: (12340 + i) * 1_000,
      update,
      data: { a: "1", b: "2" },
    });
  }
}

async function listening(count: number, work: () => Promise<unknown>): Promise<string[]> {
  const messages: string[] = [];
  const subscriber = await redis.subscriber("test");
  await subscriber.subscribe("p:action:push", (message) => messages.push(String(message)));
  await work();
  await eventually(() => expect(messages.length).toBeGreaterThanOrEqual(count));
  await subscriber.close();
  return messages;
}

describe("acceptance cases", () => {
  test("1: one always push sets score, list and data, and says insert once", async () => {
    const messages = await listening(1, () =>
      queue.push("k", "task", { at: 12340000, update: "always", data: { a: "1", b: "2" } }),
    );
    expect(messages).toEqual(["insert"]);
    expect(await score()).toBe(12340);
    expect(await length()).toBe(1);
    expect(await server.command("HLEN", "p:queue:k:data")).toBe(2);
    expect(await exists("overwrite")).toBe(0);
    expect(await exists("locker")).toBe(0);
  });

  test("2: ten always pushes leave the last time and ten messages", async () => {
    const messages = await listening(10, () => pushTen());
    expect(messages).toEqual(Array(10).fill("insert"));
    expect(await score()).toBe(12349);
    expect(await length()).toBe(10);
  });

  test("3: ten once pushes keep the first time", async () => {
    await pushTen("once");
    expect(await score()).toBe(12340);
    expect(await length()).toBe(10);
  });

  test("4: an overwrite marker lets the first once push set the time, and is gone then", async () => {
    await queue.push("k", "old", { at: 1000 });
    await server.command("ZADD", "p:timer", 56789, "k");
    await server.command("SET", "p:queue:k:overwrite", "1");
    await pushTen("once");
    expect(await score()).toBe(12340);
    expect(await exists("overwrite")).toBe(0);
    // and on an empty list
    await server.command("FLUSHALL");
    await server.command("ZADD", "p:timer", 56789, "k");
    await server.command("SET", "p:queue:k:overwrite", "1");
    await pushTen("once");
    expect(await score()).toBe(12340);
    expect(await exists("overwrite")).toBe(0);
  });

  test.each([
    [1, 1],
    [2, 2],
    [-1, 10],
  ])("5: get(%i) of ten hands out the %i oldest and keeps the rest", async (number, handed) => {
    await pushTen();
    await server.command("SET", "p:queue:k:start", "12340");
    const before = await redisNow();
    const batch = await queue.get("k", { number, leaseMs: 2000, token: "mine" });
    expect(texts(batch?.items)).toEqual(Array.from({ length: handed }, (_, i) => `task${i}`));
    expect(await length()).toBe(10);
    expect(await score()).toBeGreaterThanOrEqual(Math.floor(before * 1000) / 1000 + 2 - 0.001);
    expect(await score()).toBeLessThanOrEqual((await redisNow()) + 2);
    expect(await exists("overwrite")).toBe(1);
    expect(await server.command("GET", "p:queue:k:locker")).toBe("mine");
    expect(await server.command("PTTL", "p:queue:k:locker")).toBeGreaterThan(0);
    expect(await exists("start")).toBe(0);
    expect(await server.command("HLEN", "p:queue:k:data")).toBe(2);
  });

  test("6: a lock of someone else answers locked and changes nothing", async () => {
    await pushTen();
    await server.command("SET", "p:queue:k:locker", "theirs");
    await expect(queue.get("k", { leaseMs: 2000 })).rejects.toMatchObject({
      code: "LOCKED",
      message: expect.stringContaining("locked"),
    });
    expect(await score()).toBe(12349);
    expect(await length()).toBe(10);
    expect(await exists("overwrite")).toBe(0);
    expect(await server.command("HLEN", "p:queue:k:data")).toBe(2);
  });

  test.each([10, 11, 9])(
    "7: complete after get(%i) of ten removes what was handed out",
    async (n) => {
      await pushTen();
      await queue.push("other", "x", { at: 99999000 });
      const batch = await queue.get("k", { number: n, leaseMs: 2000 });
      const left = await queue.complete("k", batch?.token ?? "");
      expect(left).toBe(n === 9 ? 1 : 0);
      expect(await exists("locker")).toBe(0);
      expect(await exists("overwrite")).toBe(0);
      if (n === 9) {
        expect(await list()).toEqual(["task9"]);
        expect(await score()).toBe(12349);
        expect(await server.command("HLEN", "p:queue:k:data")).toBe(2);
      } else {
        expect(await server.command("ZRANGE", "p:timer", 0, -1)).toEqual(["other"]);
        expect(await server.command("KEYS", "p:queue:k*")).toEqual([]);
      }
    },
  );

  test.each([10, 9, 11])("8: release(23456) after get(%i) keeps everything", async (number) => {
    await pushTen();
    const batch = await queue.get("k", { number, leaseMs: 2000 });
    await queue.release("k", batch?.token ?? "", { at: 23456000 });
    expect(await length()).toBe(10);
    expect(await exists("locker")).toBe(0);
    expect(await exists("overwrite")).toBe(1);
    expect(await score()).toBe(23456);
  });

  test("9: schedule tells how long to wait, then hands out the due key", async () => {
    expect(await queue.schedule()).toEqual({ waitMs: undefined });
    const now = await redisNow();
    await queue.push("late", "x", { at: (now + 10) * 1_000 });
    const ten = await queue.schedule();
    expect(ten.waitMs).toBeGreaterThan(9_000);
    expect(ten.waitMs).toBeLessThanOrEqual(10_000);
    await queue.push("soon", "x", { at: (now + 2) * 1_000 });
    const two = await queue.schedule();
    expect(two.waitMs).toBeGreaterThan(1_000);
    expect(two.waitMs).toBeLessThanOrEqual(2_000);
    await server.command("ZADD", "p:timer", now - 1, "soon");
    expect(await queue.schedule()).toEqual({ key: "soon", waitMs: 0 });
  });

  test("10: a start is kept, and the seed's timeout deletes the key with all it has", async () => {
    const strict = new MergeQueue(redis, { prefix: "p", onStartTimeout: "drop" });
    await pushTen();
    expect(await strict.schedule()).toEqual({ key: "k", waitMs: 0 });
    const started = await server.command("GET", "p:queue:k:start");
    expect(Math.abs(Number(started) - (await redisNow()))).toBeLessThan(5);
    expect(await strict.schedule()).toEqual({ key: "k", waitMs: 0 });
    expect(await server.command("GET", "p:queue:k:start")).toBe(started);
    await server.command("SET", "p:queue:k:start", String((await redisNow()) - 5.002));
    expect(await strict.schedule()).toEqual({ waitMs: undefined });
    expect(await server.command("KEYS", "p:queue:*")).toEqual([]);
    expect(await score()).toBeNull();
    await strict.close();
  });

  test("11: wait lasts its time, and a publish ends it", async () => {
    await queue.schedule();
    const began = performance.now();
    expect(await queue.wait(100)).toBe("timeout");
    expect(performance.now() - began).toBeGreaterThanOrEqual(99);
    const waiting = queue.wait(20_000);
    await server.command("PUBLISH", "p:action:push", "insert");
    expect(await waiting).toBe("push");
  });
});

describe("bugs of the seed's library, put right", () => {
  test("1: complete needs the token of the lock, and leaves other locks alone", async () => {
    await pushTen();
    await expect(queue.complete("k", "nobody")).rejects.toMatchObject({ code: "LEASE_LOST" });
    await queue.get("k", { leaseMs: 2000, token: "mine" });
    await expect(queue.complete("k", "yours")).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(await length()).toBe(10);
    expect(await server.command("GET", "p:queue:k:locker")).toBe("mine");
  });

  test("2: release keeps the time unless one is given, and an unknown key changes nothing", async () => {
    await expect(queue.release("ghost", "t", { at: 5000 })).rejects.toMatchObject({
      code: "LEASE_LOST",
    });
    expect(await server.command("KEYS", "*")).toEqual([]);
    await pushTen();
    const batch = await queue.get("k", { leaseMs: 60_000 });
    const lease = await score();
    await queue.release("k", batch?.token ?? "");
    expect(await score()).toBe(lease);
  });

  test("3: what is pushed after get stays when the batch is completed", async () => {
    await queue.push("k", "a");
    await queue.push("k", "b");
    const batch = await queue.get("k", { number: 10, leaseMs: 2000 });
    expect(batch?.items).toHaveLength(2);
    for (const body of ["c", "d", "e"]) await queue.push("k", body, { at: 777000 });
    expect(await queue.complete("k", batch?.token ?? "")).toBe(3);
    expect(await list()).toEqual(["c", "d", "e"]);
    expect(await score()).toBe(777);
  });

  test("4: get(-1) and complete leave nothing to be delivered again", async () => {
    await pushTen();
    const batch = await queue.get("k", { number: -1, leaseMs: 2000 });
    expect(await queue.complete("k", batch?.token ?? "")).toBe(0);
    expect(await server.command("KEYS", "*")).toEqual([]);
  });

  test("5: a push while a batch is out times the next batch, not the lease", async () => {
    await pushTen();
    const batch = await queue.get("k", { leaseMs: 60_000 });
    const lease = await score();
    await queue.push("k", "next", { at: 20000000, update: "once" });
    await queue.push("k", "more", { at: 30000000, update: "once" });
    expect(await score()).toBe(lease);
    expect((await queue.schedule()).key).toBeUndefined();
    expect(await queue.complete("k", batch?.token ?? "")).toBe(2);
    expect(await score()).toBe(20000);
  });

  test("5: after a failure a push neither moves the retry nor joins the batch", async () => {
    await pushTen();
    const first = await queue.get("k", { leaseMs: 60_000 });
    await queue.release("k", first?.token ?? "", { at: 4000000000000 });
    await queue.push("k", "new", { at: 50000000, update: "once" });
    await queue.push("k", "newer", { at: 60000000, update: "always" });
    expect(await score()).toBe(4000000000);
    expect(await server.command("HGET", "p:queue:k:state", "next")).toBe("60000.000");
    expect(await server.command("HGET", "p:queue:k:state", "batch")).toBe("10");
    expect(await length()).toBe(12);
  });

  test("6: the start timeout leaves nothing behind", async () => {
    const strict = new MergeQueue(redis, { prefix: "p", onStartTimeout: "drop" });
    await pushTen();
    const batch = await queue.get("k", { leaseMs: 60_000 });
    await queue.release("k", batch?.token ?? "", { at: 1000 });
    await strict.schedule();
    await server.command("SET", "p:queue:k:start", "1");
    await strict.schedule();
    expect(await server.command("KEYS", "*")).toEqual([]);
    await strict.close();
  });

  test("7, 8: two workers are handed the same key, one of them gets it", async () => {
    await queue.push("k", "a");
    const keys = [await queue.schedule(), await queue.schedule()].map(({ key }) => key);
    expect(keys).toEqual(["k", "k"]);
    const gets = await Promise.allSettled([1, 2].map(() => queue.get("k", { leaseMs: 2000 })));
    expect(gets.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  });

  test("10: a push between schedule and wait is not missed", async () => {
    expect(await queue.schedule()).toEqual({ waitMs: undefined });
    await queue.push("k", "a");
    expect(await queue.wait(20_000)).toBe("push");
    expect(await queue.schedule()).toEqual({ key: "k", waitMs: 0 });
  });

  test("an ontime of 0, less or none is now", async () => {
    for (const ontime of [0, -5, undefined]) {
      const before = await redisNow();
      await queue.push("k", "a", ontime === undefined ? {} : { at: ontime * 1_000 });
      expect(await score()).toBeGreaterThanOrEqual(before - 0.001);
      expect(await score()).toBeLessThanOrEqual(await redisNow());
      await server.command("FLUSHALL");
    }
  });

  test("an earlier time shortens the wait, and a deletion ends it", async () => {
    const now = await redisNow();
    await queue.push("k", "a", { at: (now + 100) * 1_000 });
    expect((await queue.schedule()).waitMs).toBeGreaterThan(90_000);
    await queue.push("k", "b", { at: (now + 10) * 1_000, update: "always" });
    expect((await queue.schedule()).waitMs).toBeLessThanOrEqual(10_000);
    await new Inspector(queue).remove("k");
    expect(await queue.schedule()).toEqual({ waitMs: undefined });
  });

  test("whoever holds the lock may get again with its token, and the lock lasts anew", async () => {
    await pushTen();
    await queue.get("k", { number: 2, leaseMs: 1_000, token: "mine" });
    const again = await queue.get("k", { number: 3, leaseMs: 60_000, token: "mine" });
    expect(texts(again?.items)).toEqual(["task0", "task1", "task2"]);
    expect(await server.command("PTTL", "p:queue:k:locker")).toBeGreaterThan(1_000);
    expect(await queue.complete("k", "mine")).toBe(7);
  });

  test("11: times keep their milliseconds", async () => {
    await queue.push("k", "a", { at: 1366614150.123 * 1_000 });
    expect(await score()).toBe(1366614150.123);
  });

  test("a key that nobody fetches is offered again and becomes a dead letter, never silence", async () => {
    const impatient = new MergeQueue(redis, { prefix: "p", startTimeoutMs: 1, maxStarts: 3 });
    await pushTen();
    let offers = 0;
    await eventually(async () => {
      if ((await impatient.schedule()).key === "k") offers += 1;
      expect(await length()).toBe(0);
    });
    expect(offers).toBeGreaterThanOrEqual(3);
    const [id] = (await server.command("ZRANGE", "p:dead", 0, -1)) as string[];
    expect(await server.command("LRANGE", `p:dead:${id}:bodies`, 0, -1)).toHaveLength(10);
    expect(await server.command("HGET", `p:dead:${id}`, "reason")).toContain("never fetched");
    expect(await server.command("HGET", `p:dead:${id}:data`, "a")).toBe("1");
    expect(await score()).toBeNull();
    await impatient.close();
  });
});

describe("bad input", () => {
  test.each([
    ["update", () => queue.push("k", "x", { update: "never" as "once" })],
    ["at", () => queue.push("k", "x", { at: Number.NaN })],
    ["id", () => queue.push("k", "x", { id: "a b" })],
    ["idempotencyKey", () => queue.push("k", "x", { idempotencyKey: "a b" })],
    ["body", () => queue.push("k", 5 as unknown as string)],
    ["number", () => queue.get("k", { number: 0, leaseMs: 1 })],
    ["leaseMs", () => queue.get("k", { leaseMs: 0 })],
  ])("a wrong %s is named and stores nothing", async (parameter, act) => {
    await expect(act()).rejects.toMatchObject({ code: "INVALID_ARGUMENT", argument: parameter });
    expect(await server.command("KEYS", "*")).toEqual([]);
  });

  test("a key that would be another queue's companion is refused", async () => {
    await expect(queue.push("k:data", "x")).rejects.toMatchObject({ code: "INVALID_NAME" });
    await expect(queue.push("", "x")).rejects.toMatchObject({ code: "INVALID_NAME" });
    expect(await server.command("KEYS", "*")).toEqual([]);
  });
});
