import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { expect, test } from "vitest";
import { checkVerdict } from "../src/delivery/verdict.ts";
import { Dispatcher, Inspector, MergeQueue, type Verdict } from "../src/index.ts";
import { QueueStore } from "../src/store/queue-store.ts";

const { redis } = await redisForFile();
const reason = "no";

test("nothing is delivered, and positions are brought into order", () => {
  for (const given of [undefined, null, { kind: "delivered" }]) {
    expect(checkVerdict(given, 1)).toEqual({ kind: "delivered" });
  }
  expect(checkVerdict({ kind: "partial", failed: [2, 0, 2], reason }, 3)).toEqual({
    ...{ kind: "partial", failed: [0, 2], reason },
  });
  expect(checkVerdict({ kind: "partial", failed: [], reason }, 3)).toEqual({ kind: "delivered" });
  expect(checkVerdict({ kind: "retry", reason, afterMs: 0 }, 3)).toMatchObject({ afterMs: 0 });
});

const WRONG: readonly unknown[] = [
  ...[true, "ok", 0, {}, [], { kind: "nope", reason }, { kind: "retry" }, { kind: "dead" }],
  ...["x", undefined, Number.NaN, -1, 3, 0.5].map((failed) => {
    return { kind: "partial", failed: [failed], reason };
  }),
  ...[
    { kind: "partial", reason },
    { kind: "invalid", positions: ["x"], reason },
  ],
  ...[Number.NaN, Number.POSITIVE_INFINITY, -1, "5", undefined].map((ms) => {
    return { kind: "hold", ms, reason };
  }),
  ...[Number.NaN, Number.POSITIVE_INFINITY, -1, "5"].map((afterMs) => {
    return { kind: "retry", afterMs, reason };
  }),
];

test.each(WRONG)("%o is no verdict", (given) => {
  expect(() => checkVerdict(given, 3)).toThrow(
    expect.objectContaining({ code: "INVALID_ARGUMENT" }),
  );
});

test("a handler that returns no verdict fails its attempt, and loses nothing", async () => {
  const queue = new MergeQueue(redis, { prefix: "v1" });
  const errors: unknown[] = [];
  const wrong = { kind: "partial", failed: ["an id"], reason } as unknown as Verdict;
  const dispatcher = new Dispatcher(queue, async () => wrong, { backoff: { delayMs: 600_000 } });
  dispatcher.on("error", (error) => errors.push(error));
  await using _running = await dispatcher.start();
  await queue.pushAll("k", [{ body: "a" }, { body: "b" }]);
  const key = await eventually(async () => {
    const peeked = await new Inspector(queue).peek("k");
    expect(peeked.state).toBe("retrying");
    return peeked;
  });
  expect(key).toMatchObject({ attempts: 1, error: expect.stringContaining("failed is") });
  expect(key.oldest.map(({ body }) => String(body))).toEqual(["a", "b"]);
  expect(errors).toMatchObject([{ code: "INVALID_ARGUMENT" }]);
});

test("a settlement that cannot be read changes nothing", async () => {
  const queue = new MergeQueue(redis, { prefix: "v2" });
  const store = new QueueStore(redis, queue.options);
  await queue.pushAll("k", [{ body: "a" }, { body: "b" }]);
  await queue.get("k", { leaseMs: 60_000, token: "t" });
  const failed = ["x"] as unknown as number[];
  const settled = store.settle(
    { key: "k", token: "t" },
    { delayMs: 1, batchId: "b", reason, failed },
  );
  await expect(settled).rejects.toThrow("settle");
  expect((await new Inspector(queue).peek("k")).items).toBe(2);
  expect(await queue.complete("k", "t")).toBe(0);
});

test("what an abort listener of a handler throws is an error of the dispatcher, which goes on", async () => {
  const queue = new MergeQueue(redis, { prefix: "listeners" });
  const errors: string[] = [];
  const delivered: string[] = [];
  await using dispatcher = new Dispatcher(
    queue,
    async ({ key }, { signal }) => {
      if (key === "next") return void delivered.push(key);
      signal.addEventListener("abort", () => {
        throw new Error("thrown by a listener");
      });
      signal.addEventListener("abort", async () => {
        throw new Error("rejected by a listener");
      });
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      return undefined;
    },
    { leaseMs: 400, reserveMs: 50 },
  );
  dispatcher.on("error", (error) => errors.push((error as Error).message));
  await dispatcher.start();
  await queue.push("first", "a");
  await eventually(() =>
    expect(errors).toEqual(["thrown by a listener", "rejected by a listener"]),
  );
  await queue.push("next", "b");
  await eventually(() => expect(delivered).toEqual(["next"]));
});
