/** The slots of a worker whose handler gets several jobs at once. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Schema } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { type AnyJobs, defineJobs, type JobContext, type WorkerOptions } from "../src/index.ts";
import { queueKeys } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 20_000 };

const even: Schema<number, number> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) =>
      Number(value) % 2 === 0
        ? { value: Number(value) }
        : { issues: [{ message: "expected an even number" }] },
  },
};

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

describe("a batch", () => {
  it("is as full as the queue allows, however large it is", async () => {
    const queue = one.queue();
    await queue.addBulk(Array.from({ length: 200 }, () => ({ name: "n" })));
    const sizes: number[] = [];
    const handler = async (jobs: readonly JobContext[]) => {
      sizes.push(jobs.length);
      await sleep(20);
    };
    one.worker(queue, handler, { batch: 100 });
    await eventually(async () => {
      expect(await queue.counts()).toMatchObject({ totals: { completed: 200 } });
    }, soon);
    expect(sizes).toEqual([100, 100]);
  });

  it("is an array with one job if that may have crashed its workers", async () => {
    const queue = one.queue();
    const { jobs } = queueKeys("ropeway:jobs", queue.name);
    await queue.add("suspect", 1, { id: "suspect" });
    await queue.add("other", 1);
    await one.redis.send(["HSET", jobs, "suspect", "1;0;3;\nsuspect\n1"]);
    const batches: unknown[] = [];
    const handler = (batch: readonly JobContext[]) => {
      batches.push(batch.map(({ name }) => name));
    };
    one.worker(queue, handler, { batch: 5, maxStalls: 3 });
    await eventually(() => expect(batches).toEqual([["suspect"], ["other"]]), soon);
    await eventually(async () => {
      expect(await queue.counts()).toMatchObject({ active: 0, failed: 0 });
    }, soon);
  });

  it("whose handler throws leaves each job that it has failed its own error", async () => {
    const queue = one.queue();
    const added = await queue.addBulk([1, 2].map((data) => ({ name: "n", data })));
    const handler = ([first]: readonly JobContext[]) => {
      first?.fail(new Error("its own"));
      throw new Error("of all");
    };
    one.worker(queue, handler, { batch: 5 });
    await eventually(async () => {
      const views = await Promise.all(added.map((job) => job.view()));
      expect(views.map((view) => view?.failure?.message)).toEqual(["its own", "of all"]);
    }, soon);
  });

  it("gives each job its own result, also if a schema refuses another one", async () => {
    const jobs = defineJobs({ n: { data: even } });
    const queue = one.queue();
    const keep = { completed: true };
    const added = await queue.addBulk(
      [2, 3, 4].map((data) => ({ name: "n", data, options: { keep } })),
    );
    const handler = (batch: readonly JobContext[]) => batch.map(({ data }) => `result ${data}`);
    const options = { batch: 5, jobs } as unknown as WorkerOptions<AnyJobs>;
    one.worker(queue, handler, options);
    await eventually(async () => {
      const views = await Promise.all(added.map((job) => job.view()));
      expect(views.map((view) => view?.result ?? view?.failure?.code)).toEqual([
        "result 2",
        "JOB_DATA_INVALID",
        "result 4",
      ]);
    }, soon);
  });
});
