// Bounds: the bytes of a batch, the number of dead letters, the life of records.
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { expect, test } from "vitest";
import { DeadLetters, Dispatcher, Inspector, MergeQueue } from "../src/index.ts";

const { server, redis } = await redisForFile();

/** Makes a dead letter of each item, in this order. */
async function bury(queue: MergeQueue, items: readonly (readonly [string, string])[]) {
  const letters = new DeadLetters(queue);
  const dead = { kind: "dead", reason: "no" } as const;
  await using _dispatcher = await new Dispatcher(queue, async () => dead).start();
  for (const [i, [key, body]] of items.entries()) {
    await queue.push(key, body);
    await eventually(async () => expect((await letters.list()).items).toHaveLength(i + 1));
  }
  return letters;
}

test("no batch of replayed items exceeds the maximum of bytes", async () => {
  const queue = new MergeQueue(redis, { prefix: "bytes", maxBytes: 10 });
  const bodies = ["123456", "abcdef", "ABCDEF"];
  const letters = await bury(
    queue,
    bodies.map((body) => ["k", body] as const),
  );
  await letters.replayAll();
  const seen: string[][] = [];
  await using _dispatcher = await new Dispatcher(queue, async ({ items }) => {
    seen.push(items.map(({ body }) => String(body)));
  }).start();
  await eventually(() => expect(seen).toEqual(bodies.map((body) => [body])));
});

test("a dispatcher deletes the oldest dead letters beyond its maximum", async () => {
  const queue = new MergeQueue(redis, { prefix: "letters" });
  const items = ["a", "b", "c"].map((key) => [key, "1"] as const);
  const letters = await bury(queue, items);
  const nothing = async () => {};
  await using _dispatcher = await new Dispatcher(queue, nothing, { maxLetters: 1 }).start();
  await eventually(async () => expect((await letters.list()).items).toMatchObject([{ key: "c" }]));
});

test("the records of an idempotency key and of its deletion expire", async () => {
  const queue = new MergeQueue(redis, { prefix: "records", idempotencyMs: 60_000 });
  await queue.push("k", "a", { idempotencyKey: "once", at: 4_000_000_000_000 });
  await new Inspector(queue).remove("k");
  for (const record of [queue.keys.idempotency("k", "once"), queue.keys.deleted("k")]) {
    const ttl = await server.command("PTTL", record);
    expect(ttl).toBeGreaterThan(0);
    expect(ttl).toBeLessThanOrEqual(60_000);
  }
});

test("of a long error message, the first 1,000 characters are kept", async () => {
  const queue = new MergeQueue(redis, { prefix: "reasons" });
  const letters = new DeadLetters(queue);
  const fails = async () => {
    throw new Error("x".repeat(100_000));
  };
  const backoff = { kind: "fixed", delayMs: 10 } as const;
  await using dispatcher = new Dispatcher(queue, fails, { attempts: 2, backoff });
  const stored: unknown[] = [];
  dispatcher.on("failed", (_batch, { reason }) => stored.push(reason));
  await dispatcher.start();
  await queue.push("k", "1");
  const short = `${"x".repeat(1_000)}...`;
  await eventually(async () =>
    expect((await letters.list()).items).toMatchObject([{ reason: `${short}, after 2 attempts` }]),
  );
  expect(stored).toEqual([short]);
});
