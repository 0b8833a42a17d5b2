import { connect, type Redis } from "@ropeway/core";
import {
  eventually,
  otherServer,
  startCluster,
  startRedis,
  startSentinelTrio,
} from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { Queue, SeedQueue, SeedWorker, Worker } from "../src/index.ts";

/** Uses a little of every feature. */
async function live(redis: Redis, prefix: string): Promise<void> {
  const queue = new Queue(redis, "tour", { prefix });
  const seen: string[] = [];
  const worker = new Worker(
    redis,
    "tour",
    async (job: { name: string; attempt: number; children(): Promise<unknown[]> }) => {
      seen.push(job.name);
      if (job.name === "retried" && job.attempt === 1) throw new Error("once more");
      return (await job.children()).length;
    },
    { prefix, concurrency: 3, leaseMs: 2_000 },
  );
  await queue.addBulk([
    { name: "plain" },
    { name: "urgent", options: { priority: -1 } },
    { name: "grouped", options: { group: "g" } },
    { name: "delayed", options: { delayMs: 50 } },
    { name: "retried", options: { attempts: 2, backoff: 10 } },
    { name: "keyed", options: { dedupe: { key: "k", ttlMs: 50 } } },
  ]);
  const children = [{ name: "child" }, { name: "child" }];
  const root = await queue.addFlow({ name: "parent", children, options: { awaited: true } });
  expect(await root.result({ timeoutMs: 10_000 })).toBe(2);
  await eventually(async () => expect((await queue.counts()).totals.completed).toBe(9));
  expect(seen.filter((name) => name === "retried")).toHaveLength(2);
  await worker.close();
  await queue.close();
}

describe("Redis Cluster", () => {
  it("runs queues with any prefix, and several in order when they share a hash tag", async () => {
    const cluster = await startCluster();
    const redis = await connect(cluster.url);
    await live(redis, "jobs");
    await live(redis, "{shop}:jobs");
    const prefix = "{shop}";
    const queues = ["high", "low"].map((name) => new Queue(redis, name, { prefix }));
    for (const queue of [...queues].reverse()) await queue.add(queue.name);
    const seen: string[] = [];
    const worker = new Worker(
      redis,
      ["high", "low"],
      (job: { name: string }) => void seen.push(job.name),
      { prefix },
    );
    await eventually(() => expect(seen).toEqual(["high", "low"]));
    await worker.close();
    const apart = () => new Worker(redis, ["a", "b", "c"], () => {}, { prefix: "apart" });
    expect(apart).toThrow(/hash tag/);
    const seed = await new SeedWorker(
      redis,
      { queues: ["x", "y"], callbacks: { f: (...a: unknown[]) => void seen.push(String(a)) } },
      { delayed: false },
    ).start();
    await new SeedQueue(redis).push("y", "f", [1, 2]);
    await eventually(() => expect(seen.at(-1)).toBe("1,2"));
    await seed.close();
    await Promise.all(queues.map((queue) => queue.close()));
    await redis.close();
    await cluster.close();
  }, 90_000);
});

describe("Sentinel", () => {
  it("a failover loses no job that was replicated, and workers go on by themselves", async () => {
    const trio = await startSentinelTrio();
    const redis = await connect(trio.url, { offlineWaitMs: 20_000 });
    const queue = new Queue(redis, "failover");
    const runs = new Set<number>();
    const worker = new Worker(redis, "failover", (job) => void runs.add(Number(job.data)), {
      concurrency: 5,
      leaseMs: 1_000,
      idleMs: 500,
    });
    await queue.addBulk(Array.from({ length: 200 }, (_, i) => ({ name: "n", data: i })));
    await eventually(() => expect(runs.size).toBe(200));
    await redis.send(["WAIT", "1", "5000"]);
    await trio.failover();
    await queue.addBulk(Array.from({ length: 200 }, (_, i) => ({ name: "n", data: 200 + i })));
    await eventually(() => expect(runs.size).toBe(400), { withinMs: 30_000 });
    await worker.close();
    await queue.close();
    await redis.close();
    await trio.close();
  }, 90_000);
});

for (const version of ["redis-8.0", "valkey-8.1"] as const) {
  const other = otherServer(version);
  describe.skipIf(other.reason)(`${version} ${other.reason ?? ""}`, () => {
    it("runs the same scripts", async () => {
      const server = await startRedis({ version });
      const redis = await connect(server.url);
      await live(redis, "jobs");
      await redis.close();
      await server.close();
    });
  });
}
