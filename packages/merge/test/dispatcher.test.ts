import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterEach, expect, test } from "vitest";
import {
  type Batch,
  DeadLetters,
  Dispatcher,
  type Handler,
  Inspector,
  MergeQueue,
} from "../src/index.ts";

const { server, redis } = await redisForFile();
let prefixes = 0;
const open: { close(): Promise<void> }[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((each) => each.close()));
});

const fresh = (options = {}) => {
  prefixes += 1;
  return new MergeQueue(redis, { prefix: `d${prefixes}`, ...options });
};
const texts = (batch: Batch) => batch.items.map(({ body }) => String(body));
const QUICK = { backoff: { delayMs: 20, maxMs: 50 }, holdJitterMs: 1 };

async function dispatch(queue: MergeQueue, handler: Handler, o = {}) {
  const dispatcher = await new Dispatcher(queue, handler, { ...QUICK, ...o }).start();
  open.push(dispatcher);
  return dispatcher;
}

const keysLeft = (queue: MergeQueue) => server.command("KEYS", `${queue.keys.prefix}:*`);
const redisNow = async () => {
  const [s, us] = (await server.command("TIME")) as string[];
  return Number(s) + Number(us) / 1e6;
};

test("items of one key arrive together, in order, and nothing is left in Redis", async () => {
  const queue = fresh();
  const seen: string[][] = [];
  const now = await redisNow();
  for (const body of ["a", "b", "c"]) await queue.push("k", body, { at: (now + 0.2) * 1_000 });
  await dispatch(queue, async (batch) => void seen.push(texts(batch)));
  await eventually(async () => expect(await keysLeft(queue)).toEqual([]));
  expect(seen).toEqual([["a", "b", "c"]]);
});

test("nothing fires before its time, and a push wakes a sleeping dispatcher", async () => {
  const queue = fresh();
  const fired: number[] = [];
  await dispatch(queue, async () => void fired.push(await redisNow()));
  const ontime = (await redisNow()) + 0.3;
  await queue.push("k", "a", { at: ontime * 1_000 });
  await eventually(() => expect(fired).toHaveLength(1));
  expect(fired[0]).toBeGreaterThanOrEqual(ontime);
});

test("always fires once, at the later time; once keeps the first time", async () => {
  const queue = fresh();
  const fired = new Map<string, number>();
  await dispatch(
    queue,
    async (batch) => void fired.set(`${batch.key}:${texts(batch)}`, await redisNow()),
  );
  const now = await redisNow();
  for (const [update, key] of [
    ["always", "k1"],
    ["once", "k2"],
  ] as const) {
    await queue.push(key, "1", { at: (now + 0.2) * 1_000, update });
    await queue.push(key, "2", { at: (now + 0.6) * 1_000, update });
  }
  await eventually(() => expect([...fired.keys()].sort()).toEqual(["k1:1,2", "k2:1,2"]));
  expect(fired.get("k1:1,2")).toBeGreaterThanOrEqual(now + 0.6);
  expect(fired.get("k2:1,2")).toBeLessThan(now + 0.6);
});

test("an always queue that is pushed for ever fires by maxWaitMs", async () => {
  const queue = fresh({ maxWaitMs: 300 });
  const fired: number[] = [];
  await dispatch(queue, async () => void fired.push(await redisNow()));
  const began = await redisNow();
  await eventually(
    async () => {
      await queue.push("k", "x", { at: ((await redisNow()) + 0.2) * 1_000, update: "always" });
      expect(fired).toHaveLength(1);
    },
    { everyMs: 20 },
  );
  expect(fired[0]).toBeGreaterThanOrEqual(began + 0.3);
});

test("maxWaitMs never makes a batch fire before the time its first push asked for", async () => {
  const queue = fresh({ maxWaitMs: 300 });
  const later = Math.round(await redisNow()) + 3600;
  await queue.push("k", "x", { at: later * 1_000 });
  const { at } = await queue.push("k", "y", { at: (later + 60) * 1_000, update: "always" });
  expect(at).toBe(later * 1_000);
});

test("a full batch fires early, and the rest follows in order", async () => {
  const queue = fresh({ maxItems: 3 });
  const seen: string[][] = [];
  await dispatch(queue, async (batch) => void seen.push(texts(batch)));
  const ontime = (await redisNow()) + 3600;
  const items = Array.from({ length: 7 }, (_, i) => ({ body: String(i), at: ontime * 1_000 }));
  await queue.pushAll("k", items);
  await eventually(() => expect(seen.flat()).toHaveLength(7));
  expect(seen).toEqual([["0", "1", "2"], ["3", "4", "5"], ["6"]]);
});

test("too many bytes fire early, and no batch of several items exceeds them", async () => {
  const queue = fresh({ maxBytes: 10 });
  const seen: string[][] = [];
  await dispatch(queue, async (batch) => void seen.push(texts(batch)));
  const ontime = (await redisNow()) + 3600;
  await queue.push("k", "123456", { at: ontime * 1_000 });
  await queue.push("k", "abcdef", { at: ontime * 1_000 });
  await eventually(() => expect(seen).toEqual([["123456"], ["abcdef"]]));
});

test("items pushed during delivery form the next batch", async () => {
  const queue = fresh();
  const seen: string[][] = [];
  await queue.push("k", "a");
  await dispatch(queue, async (batch) => {
    seen.push(texts(batch));
    if (seen.length === 1) for (const body of ["b", "c"]) await queue.push("k", body);
  });
  await eventually(() => expect(seen).toEqual([["a"], ["b", "c"]]));
  await eventually(async () => expect(await keysLeft(queue)).toEqual([]));
});

test("a failed batch comes again as it was, under the same id, before what came later", async () => {
  const queue = fresh();
  const seen: { id: string; attempt: number; texts: string[] }[] = [];
  await queue.push("k", "a");
  await dispatch(queue, async (batch) => {
    seen.push({ id: batch.id, attempt: batch.attempt, texts: texts(batch) });
    if (seen.length === 1) await queue.push("k", "b");
    if (seen.length < 3) throw new Error("not now");
  });
  await eventually(() => expect(seen).toHaveLength(4));
  expect(seen.map((each) => each.texts)).toEqual([["a"], ["a"], ["a"], ["b"]]);
  expect(seen.map((each) => each.attempt)).toEqual([1, 2, 3, 1]);
  expect(new Set(seen.slice(0, 3).map((each) => each.id)).size).toBe(1);
  expect(seen[3]?.id).not.toBe(seen[0]?.id);
});

test("after attempts the batch is a dead letter, and a replay delivers it", async () => {
  const queue = fresh();
  const inspector = new Inspector(queue);
  const letters = new DeadLetters(queue);
  let broken = true;
  const seen: string[][] = [];
  await queue.push("k", "a", { data: { who: "me" } });
  await queue.push("k", "b");
  await dispatch(
    queue,
    async (batch) => {
      if (broken) throw new Error("the house is empty");
      seen.push(texts(batch));
    },
    { attempts: 3 },
  );
  const letter = await eventually(async () => {
    const { items: entries } = await letters.list();
    expect(entries).toHaveLength(1);
    return entries[0];
  });
  expect(letter).toMatchObject({ key: "k", items: 2, attempts: 3 });
  expect(letter?.reason).toContain("the house is empty");
  expect((await letters.items(letter?.id ?? "")).items).toMatchObject([
    { body: Buffer.from("a") },
    { body: Buffer.from("b") },
  ]);
  expect(await letters.list({ key: "k" })).toMatchObject({ items: [{ id: letter?.id }] });
  expect((await inspector.peek("k")).items).toBe(0);
  broken = false;
  expect(await letters.replay(letter?.id ?? "")).toBe(2);
  await eventually(() => expect(seen).toEqual([["a", "b"]]));
  await eventually(async () => expect(await keysLeft(queue)).toEqual([]));
  await expect(letters.replay(letter?.id ?? "")).rejects.toMatchObject({
    code: "UNKNOWN_LETTER",
  });
});

test("a partial verdict tries only the failed items again, in order, in front of newer ones", async () => {
  const queue = fresh();
  const seen: string[][] = [];
  await queue.pushAll(
    "k",
    ["a", "b", "c", "d"].map((body) => ({ body })),
  );
  await dispatch(queue, async (batch) => {
    seen.push(texts(batch));
    if (seen.length > 1) return undefined;
    await queue.push("k", "e");
    return { kind: "partial", failed: [1, 3], reason: "two of them" };
  });
  await eventually(() => expect(seen).toHaveLength(3));
  expect(seen).toEqual([["a", "b", "c", "d"], ["b", "d"], ["e"]]);
  await eventually(async () => expect(await keysLeft(queue)).toEqual([]));
});

test("items that fail in part to the last are a dead letter, the others have arrived", async () => {
  const queue = fresh();
  await queue.pushAll(
    "k",
    ["a", "b"].map((body) => ({ body })),
  );
  const partly = async () => ({ kind: "partial", failed: [0], reason: "never" }) as const;
  await dispatch(queue, partly, { attempts: 2 });
  const letters = new DeadLetters(queue);
  await eventually(async () => expect((await letters.list()).items).toHaveLength(1));
  const [letter] = (await letters.list()).items;
  expect(String((await letters.items(letter?.id ?? "")).items[0]?.body)).toBe("a");
  expect(letter).toMatchObject({ items: 1, reason: expect.stringContaining("2 attempts") });
});

test("a hold does not count as an attempt", async () => {
  const queue = fresh();
  const attempts: number[] = [];
  await queue.push("k", "a");
  await dispatch(queue, async (batch) => {
    attempts.push(batch.attempt);
    return attempts.length < 3 ? { kind: "hold", reason: "busy", ms: 10 } : undefined;
  });
  await eventually(() => expect(attempts).toEqual([1, 1, 1]));
});

test("an item deleted while it is being sent is not sent again, and new items wait for the lock", async () => {
  const queue = fresh();
  const inspector = new Inspector(queue);
  const seen: string[][] = [];
  let overlapped = false;
  let running = 0;
  await queue.push("k", "a");
  await dispatch(
    queue,
    async (batch) => {
      running += 1;
      overlapped ||= running > 1;
      seen.push(texts(batch));
      if (seen.length === 1) {
        expect(await inspector.remove("k")).toEqual({ deleted: 1, sending: 1 });
        await queue.push("k", "b");
        running -= 1;
        throw new Error("failed after the deletion");
      }
      running -= 1;
    },
    { leaseMs: 2_000 },
  );
  await eventually(() => expect(seen).toEqual([["a"], ["b"]]));
  expect(overlapped).toBe(false);
});

test("paused, nothing is handed out; resumed, everything is", async () => {
  const queue = fresh();
  const inspector = new Inspector(queue);
  const seen: string[][] = [];
  await inspector.pause();
  expect((await inspector.stats()).paused).toBe(true);
  await dispatch(queue, async (batch) => void seen.push(texts(batch)));
  await queue.push("k", "a");
  expect(await queue.schedule()).toEqual({ waitMs: undefined });
  expect(seen).toEqual([]);
  await inspector.resume();
  await eventually(() => expect(seen).toEqual([["a"]]));
  await queue.close();
});

test("send-now fires a key that is far away", async () => {
  const queue = fresh();
  const seen: string[][] = [];
  await dispatch(queue, async (batch) => void seen.push(texts(batch)));
  await queue.push("k", "a", { at: 4000000000000 });
  expect(await new Inspector(queue).sendNow("k")).toBe(1);
  await eventually(() => expect(seen).toEqual([["a"]]));
  expect(await new Inspector(queue).sendNow("nothing")).toBe(0);
});

test("a timer entry without items does not spin and does not stop others", async () => {
  const queue = fresh();
  const seen: string[][] = [];
  await server.command("ZADD", queue.keys.timer, 1, "ghost");
  await queue.push("k", "a");
  await dispatch(queue, async (batch) => void seen.push(texts(batch)));
  await eventually(() => expect(seen).toEqual([["a"]]));
  await eventually(async () => expect(await keysLeft(queue)).toEqual([]));
});

test("a foreign lock delays its key only, without spinning", async () => {
  const queue = fresh();
  const seen: string[] = [];
  await queue.push("locked", "a");
  await queue.push("free", "b");
  await server.command("SET", `${queue.keys.queue("locked")}:locker`, "theirs", "PX", 3_000);
  await dispatch(queue, async (batch) => void seen.push(batch.key));
  await eventually(() => expect(seen).toEqual(["free", "locked"]));
});

test("tasks of a program written to the seed are delivered with ours, in order", async () => {
  const queue = fresh();
  const seen: Batch[] = [];
  const { timer } = queue.keys;
  await server.command("RPUSH", queue.keys.queue("k"), "theirs-1");
  await server.command("ZADD", timer, 4_000_000_000, "k");
  await queue.push("k", "ours");
  await server.command("RPUSH", queue.keys.queue("k"), "theirs-2");
  await server.command("ZADD", timer, 1, "k");
  await server.command("PUBLISH", queue.keys.channel, "insert");
  await dispatch(queue, async (batch) => void seen.push(batch));
  await eventually(() => expect(seen.map(texts)).toEqual([["theirs-1", "ours", "theirs-2"]]));
  expect(new Set(seen[0]?.items.map(({ id }) => id)).size).toBe(3);
  await eventually(async () => expect(await keysLeft(queue)).toEqual([]));
});

test("a push with the same idempotency key stores once and gets the same answer", async () => {
  const queue = fresh();
  const first = await queue.push("k", "a", { at: 4000000000000, idempotencyKey: "once-1" });
  const again = await queue.push("k", "a", { at: 4000000001000, idempotencyKey: "once-1" });
  expect(again).toEqual(first);
  expect(await server.command("LLEN", queue.keys.queue("k"))).toBe(1);
  await queue.push("k", "b", { idempotencyKey: "once-2" });
  expect(await server.command("LLEN", queue.keys.queue("k"))).toBe(2);
});

test("many dispatchers share the keys; each batch is handed to one of them", async () => {
  const queue = fresh();
  const seen: string[] = [];
  for (let i = 0; i < 4; i++) {
    await dispatch(queue, async (batch) => void seen.push(...texts(batch)), { concurrency: 8 });
  }
  const pushes = Array.from({ length: 600 }, (_, i) => queue.push(`k${i % 200}`, String(i)));
  await Promise.all(pushes);
  await eventually(() => expect(seen.length).toBeGreaterThanOrEqual(600));
  expect(new Set(seen).size).toBe(600);
  expect(seen).toHaveLength(600);
});

test("a handler is told when its lease ends, and its late verdict changes nothing", async () => {
  const queue = fresh();
  const seen: string[] = [];
  await queue.push("k", "a");
  await dispatch(
    queue,
    async (batch, { signal, leftMs }) => {
      seen.push(`attempt ${batch.attempt}`);
      if (batch.attempt > 1) return undefined;
      expect(leftMs).toBeLessThanOrEqual(300);
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      seen.push("told");
      await eventually(() => expect(seen).toContain("attempt 2")); // far too late
      return undefined;
    },
    { leaseMs: 400, reserveMs: 50 },
  );
  await eventually(async () => expect(await keysLeft(queue)).toEqual([]));
  expect(seen).toEqual(["attempt 1", "told", "attempt 2"]);
});

test("close waits for the running batch and leaves the rest to others", async () => {
  const queue = fresh();
  const seen: string[] = [];
  let started = false;
  const dispatcher = await new Dispatcher(
    queue,
    async (batch, { signal }) => {
      started = true;
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      seen.push(...texts(batch));
      return { kind: "hold", reason: "closing", ms: 0 };
    },
    { closeWithinMs: 50, concurrency: 1 },
  ).start();
  await queue.push("k", "a");
  await eventually(() => expect(started).toBe(true));
  await dispatcher.close();
  await dispatcher.close();
  expect(seen).toEqual(["a"]);
  await dispatch(queue, async (batch) => void seen.push(...texts(batch)));
  await eventually(() => expect(seen).toEqual(["a", "a"]));
});
