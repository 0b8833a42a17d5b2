/** While Redis is out of memory (noeviction), adding is refused and everything else works. */
import { OutOfMemoryError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { type JobContext, QueueEvents } from "../src/index.ts";
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
      await new Promise((resolve) => setTimeout(resolve, 1_200));
    };
    for (let i = 0; i < 2; i++) one.worker(queue, handler, { leaseMs: 300 });
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
      one.worker(queue, (job: JobContext) => {
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
    } finally {
      await free();
    }
    await eventually(() => expect(seen).toContain("failed"), soon);
  });
});
