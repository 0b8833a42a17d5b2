/** The slots of a worker whose handler gets several jobs at once. */
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import type { JobContext } from "../src/index.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 20_000 };

/** A batch handler that never ends a batch with a job called "hang". */
function handlerOf(ran: string[]) {
  return (jobs: readonly JobContext[]) => {
    ran.push(...jobs.map(({ name }) => name));
    return jobs.some(({ name }) => name === "hang") ? new Promise(() => {}) : [];
  };
}

describe("a batch handler that never ends", () => {
  it("has its slot free when all its jobs have timed out", async () => {
    const queue = one.queue();
    const ran: string[] = [];
    one.worker(queue, handlerOf(ran), { batch: 5 });
    const options = { timeoutMs: 50 };
    await queue.addBulk([
      { name: "hang", options },
      { name: "hang", options: { timeoutMs: 150 } },
    ]);
    await eventually(async () => expect(await queue.counts()).toMatchObject({ failed: 2 }), soon);
    await queue.add("next");
    await eventually(() => expect(ran).toEqual(["hang", "hang", "next"]), soon);
    await eventually(async () => expect(await queue.counts()).toMatchObject({ active: 0 }), soon);
  });

  it("has its slot free when all its jobs were lost", async () => {
    const queue = one.queue();
    const ran: string[] = [];
    one.worker(queue, handlerOf(ran), { batch: 5, leaseMs: 300 });
    await queue.add("hang", 0, { id: "hang" });
    await eventually(() => expect(ran).toEqual(["hang"]), soon);
    await queue.obliterate({ force: true }); // so that its lease is gone
    await queue.add("next");
    await eventually(() => expect(ran).toEqual(["hang", "next"]), soon);
  });

  it("holds no jobs beside those that it runs: another worker can take them", async () => {
    const queue = one.queue();
    const ran: string[] = [];
    one.worker(queue, handlerOf(ran), { batch: 5 });
    await queue.add("hang");
    await eventually(() => expect(ran).toEqual(["hang"]), soon);
    await queue.addBulk([{ name: "a" }, { name: "b" }]);
    for (let i = 0; i < 20; i++) {
      await sleep(50);
      expect(await queue.counts()).toMatchObject({ active: 1, waiting: 2 });
    }
  });
});
