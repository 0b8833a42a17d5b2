/** While Redis is out of memory (noeviction), adding is refused and everything else works. */
import { OutOfMemoryError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { type JobContext, QueueEvents } from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 15_000 };

const full = () => one.server.command("CONFIG", "SET", "maxmemory", "1");
const free = () => one.server.command("CONFIG", "SET", "maxmemory", "0");

describe("out of memory", () => {
  it("add() is refused with its own error and changes nothing", async () => {
    const queue = one.queue();
    await full();
    try {
      await expect(queue.add("a", 1)).rejects.toThrow(OutOfMemoryError);
      await expect(queue.addBulk([{ name: "a" }, { name: "b" }])).rejects.toThrow(OutOfMemoryError);
      await expect(queue.add("a", 1, { dedupe: "k", delayMs: 5 })).rejects.toThrow(
        OutOfMemoryError,
      );
    } finally {
      await free();
    }
    expect(await queue.counts()).toMatchObject({ waiting: 0, delayed: 0 });
    expect((await queue.add("a", 1, { dedupe: "k" })).deduplicated).toBeUndefined();
  });

  it("a job longer than its lease keeps it, and is completed", async () => {
    const queue = one.queue();
    let runs = 0;
    const handler = async () => {
      runs++;
      await new Promise((resolve) => setTimeout(resolve, 3_000));
    };
    for (let i = 0; i < 2; i++) one.worker(queue, handler, { leaseMs: 1_500 });
    await queue.add("a", 1);
    await eventually(() => expect(runs).toBe(1), soon);
    await full();
    try {
      await eventually(async () => {
        expect((await queue.counts()).totals).toMatchObject({ completed: 1, stalled: 0 });
      }, soon);
    } finally {
      await free();
    }
    expect(runs).toBe(1);
  });

  it("a worker that has no use for a wake-up passes it on", async () => {
    const store = new QueueStore(one.redis, "ropeway:jobs", one.queue().name);
    await full();
    try {
      await store.wake();
      await store.wake();
    } finally {
      await free();
    }
    expect(await one.redis.send(["ZRANGE", store.keys.wake, "0", "-1"])).toEqual(["0"]);
  });

  it("a new worker starts, takes, retries, fails and drains, with somebody listening", async () => {
    const queue = one.queue();
    await queue.addBulk([
      { name: "good" },
      { name: "bad", options: { attempts: 2, backoff: 10 } },
      { name: "grouped", options: { group: "g" } },
      { name: "kept", options: { keep: { completed: true } } },
      { name: "later", options: { delayMs: 200 } },
    ]);
    const events = one.keep(await new QueueEvents(one.redis, queue.name).start());
    const seen: string[] = [];
    events.on("event", (event) => void seen.push(event.event));
    await full();
    try {
      one.worker(queue, async (job: JobContext) => {
        await job.progress(50);
        await job.log("half");
        await job.update("done");
        if (job.name === "bad") throw new Error("bad");
      });
      await eventually(async () => {
        expect(await queue.counts()).toMatchObject({
          waiting: 0,
          delayed: 0,
          active: 0,
          totals: { completed: 4, failed: 1, retried: 1 },
        });
      }, soon);
      expect(await queue.drain(["completed", "failed"])).toBe(2);
      await queue.pause();
      await queue.resume();
    } finally {
      await free();
    }
    await eventually(() => expect(seen).toContain("failed"), soon);
  });

  it("jobs are cancelled, promoted and awaited, and outcomes reach parents in other queues", async () => {
    const [queue, other] = [one.queue(), one.queue()];
    const root = await queue.addFlow({ name: "p", children: [{ name: "c", queue: other.name }] });
    const later = await queue.add("later", 1, { delayMs: 60_000 });
    const long = await queue.add("long", 1);
    one.worker(queue, async (job: JobContext) => {
      if (job.name !== "long") return job.name;
      return new Promise((_, reject) => {
        job.signal.addEventListener("abort", () => reject(job.signal.reason));
      });
    });
    await eventually(
      async () => expect(await long.view()).toMatchObject({ state: "active" }),
      soon,
    );
    await full();
    try {
      const results = [root, later, long].map((job) => job.result({ timeoutMs: 15_000 }));
      const cancelled = expect(results[2]).rejects.toThrow(/cancelled/);
      await eventually(async () => {
        const { awaited } = queueKeys("ropeway:jobs", queue.name);
        expect(await one.redis.send(["SCARD", awaited])).toBe(3);
      }, soon);
      one.worker(other, () => "child");
      await long.cancel();
      await later.promote();
      expect(await Promise.all(results.slice(0, 2))).toEqual(["p", "later"]);
      await cancelled;
    } finally {
      await free();
    }
  }, 40_000);
});
