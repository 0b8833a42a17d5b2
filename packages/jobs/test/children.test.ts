import { eventually } from "@ropeway/testkit";
import { describe, expect, it, vi } from "vitest";
import { ChildFailedError, InvalidFlowError, type JobContext } from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const bounds = { timeoutMs: 15_000 };

describe("children of a running job", () => {
  it.each([
    { again: ["a"], ran: ["a"] },
    { again: ["b"], ran: ["a", "b"] },
    { again: ["b", "c"], ran: ["a", "b", "c"] },
  ])("that adds $again after a call with an unknown outcome are $ran", async ({ again, ran }) => {
    const queue = one.queue();
    const real = QueueStore.prototype.addChildren;
    const add = vi.spyOn(QueueStore.prototype, "addChildren");
    add.mockImplementationOnce(async function (this: QueueStore, ...args) {
      await real.apply(this, args);
      throw new Error("the reply was lost");
    });
    const child = (name: string) => ({ name });
    one.worker(
      queue,
      async (job: JobContext) => {
        if (job.name !== "parent") return job.name;
        const children = await job.children();
        if (children.length > 0) return children.map((one) => ("result" in one ? one.result : one));
        await job.addChildren([child("a")]).catch(() => job.addChildren(again.map(child)));
        return job.waitForChildren();
      },
      { concurrency: 3 },
    );
    expect(await queue.run("parent", 1, bounds)).toEqual(ran);
    add.mockRestore();
  });

  it("leave nothing behind when it ends after a call with an unknown outcome", async () => {
    const queue = one.queue();
    const real = QueueStore.prototype.addChildren;
    const add = vi.spyOn(QueueStore.prototype, "addChildren");
    add.mockImplementationOnce(async function (this: QueueStore, ...args) {
      await real.apply(this, args);
      throw new Error("the reply was lost");
    });
    one.worker(queue, async (job: JobContext) => {
      if (job.name === "parent") await job.addChildren([{ name: "child" }]).catch(() => "ignored");
    });
    await queue.add("parent");
    await eventually(async () => {
      expect(await queue.counts()).toMatchObject({ totals: { completed: 2 } });
    });
    add.mockRestore();
    const { children, jobs } = queueKeys("ropeway:jobs", queue.name);
    expect(await one.redis.send(["EXISTS", children, jobs])).toBe(0);
  });

  it("are added by it, and it runs again when they have ended", async () => {
    const queue = one.queue();
    const runs: number[] = [];
    one.worker(
      queue,
      {
        part: (job: JobContext<number>) => job.data * 10,
        sum: async (job: JobContext) => {
          const parts = await job.children();
          runs.push(parts.length);
          if (parts.length === 0) {
            const jobs = [1, 2, 3].map((data) => ({ name: "part", data }));
            expect(await job.addChildren(jobs)).toHaveLength(3);
            return job.waitForChildren();
          }
          return parts.map((part) => (part.state === "completed" ? part.result : part.state));
        },
      },
      { concurrency: 2 },
    );
    const sum = await queue.add("sum", 0, { awaited: true });
    expect(await sum.result(bounds)).toEqual([10, 20, 30]);
    expect(runs).toEqual([0, 3]);
    expect(await sum.view()).toMatchObject({ attempts: 1 });
  });

  it("stay its children although a job with its dedupe key replaces what waits", async () => {
    const queue = one.queue();
    const { children: outcomes } = queueKeys("ropeway:jobs", queue.name);
    one.worker(queue, {
      part: () => "done",
      sum: async (job: JobContext<string>) => {
        const parts = await job.children();
        if (job.data === "second" || parts.length > 0) return parts.map(({ state }) => state);
        await job.addChildren([{ name: "part" }]);
        return job.delay(60_000);
      },
    });
    const options = { awaited: true, dedupe: { key: "k", mode: "replace" as const } };
    const first = await queue.add("sum", "first", options);
    await eventually(async () => {
      expect(await first.view()).toMatchObject({ state: "delayed", children: 1 });
      expect((await queue.counts()).totals.completed).toBe(1);
    });
    const second = await queue.add("sum", "second", options);
    expect(second.deduplicated).toBeUndefined();
    expect(await second.result(bounds)).toEqual([]);
    await first.promote();
    expect(await first.result(bounds)).toEqual(["completed"]);
    await queue.drain(["completed"]);
    expect(await one.redis.send(["EXISTS", outcomes])).toBe(0);
  });

  it("fail it, also if they fail while it still runs", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    one.worker(
      queue,
      {
        bad: () => Promise.reject(new Error("bad")),
        parent: async (job: JobContext) => {
          await job.addChildren([{ name: "bad" }]);
          await eventually(async () => {
            expect(await one.redis.send(["ZCARD", store.keys.failed])).toBe(1);
          });
          return job.waitForChildren();
        },
      },
      { concurrency: 2 },
    );
    const parent = queue.run("parent", 0, bounds);
    await expect(parent).rejects.toThrow(ChildFailedError);
  });

  it("are refused if an id is taken or there are too many, and nothing is changed", async () => {
    const queue = one.queue();
    await queue.add("other", "mine", { id: "p/0", delayMs: 60_000 });
    const errors: unknown[] = [];
    const child = { name: "c" };
    one.worker(queue, async (job: JobContext) => {
      const taken = await job.addChildren([child]).catch((error: unknown) => error);
      const many = Array.from({ length: 10_001 }, () => child);
      errors.push(taken, await job.addChildren(many).catch((error: unknown) => error));
    });
    await queue.run("p", 0, { ...bounds, id: "p" });
    for (const error of errors) expect(error).toBeInstanceOf(InvalidFlowError);
    expect(errors).toHaveLength(2);
    expect(await queue.get("p/0")).toMatchObject({ name: "other", data: "mine" });
    expect(await queue.counts()).toMatchObject({ waiting: 0, delayed: 1 });
  });
});
