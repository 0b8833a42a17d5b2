import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { type FlowJob, InvalidFlowError, type JobContext } from "../src/index.ts";
import { queueKeys } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();

describe("flows", () => {
  it("run a parent when its children are done, with their results", async () => {
    const queue = one.queue();
    one.worker(
      queue,
      {
        part: (job: JobContext<number>) => job.data * 2,
        sum: async (job: JobContext) => {
          const children = await job.children();
          return children.reduce(
            (sum, child) => sum + (child.state === "completed" ? Number(child.result) : 0),
            0,
          );
        },
      },
      { concurrency: 4 },
    );
    const part = (data: number): FlowJob => ({ name: "part", data });
    const root = await queue.addFlow({
      name: "sum",
      options: { awaited: true },
      children: [part(1), { name: "sum", children: [part(10), part(100)] }, part(1_000)],
    });
    expect(await root.result({ timeoutMs: 5_000 })).toBe(2 + 220 + 2_000);
  });

  it("of 1,000 children wait for all of them and leave nothing behind", async () => {
    const queue = one.queue();
    const children = Array.from({ length: 1_000 }, (_, i) => ({ name: "child", data: i }));
    const root = await queue.addFlow({ name: "parent", options: { awaited: true }, children });
    expect(await queue.counts()).toMatchObject({ waiting: 1_000, blocked: 1 });
    let done = 0;
    one.worker(
      queue,
      {
        child: () => void done++,
        parent: async (job: JobContext) => [done, (await job.children()).length],
      },
      { concurrency: 50 },
    );
    expect(await root.result({ timeoutMs: 10_000 })).toEqual([1_000, 1_000]);
    await queue.drain(["completed"]);
    const { children: outcomes, jobs, blocked } = queueKeys("ropeway:jobs", queue.name);
    await eventually(async () => expect(await one.redis.send(["EXISTS", jobs])).toBe(0));
    expect(await one.redis.send(["EXISTS", outcomes, blocked])).toBe(0);
  });

  it("fail with the first failed child, or go on if the parent wants to", async () => {
    const queue = one.queue();
    one.worker(queue, {
      bad: () => {
        throw new Error("bad child");
      },
      good: () => "fine",
      parent: (job: JobContext) => job.children(),
    });
    const children: FlowJob[] = [{ name: "good" }, { name: "bad" }];
    const strict = await queue.addFlow({ name: "grand", children: [{ name: "parent", children }] });
    await eventually(async () => {
      expect(await strict.view()).toMatchObject({
        state: "failed",
        failure: { code: "CHILD_FAILED" },
      });
    });
    const options = { awaited: true };
    const lenient = await queue.addFlow({
      name: "parent",
      children,
      options,
      onChildFailure: "ignore",
    });
    expect(await lenient.result({ timeoutMs: 5_000 })).toMatchObject([
      { state: "completed", result: "fine" },
      { state: "failed", failure: { message: "bad child" } },
    ]);
  });

  it("wait for one less when a child is removed", async () => {
    const queue = one.queue();
    const root = await queue.addFlow({ name: "parent", children: [{ name: "a" }, { name: "b" }] });
    await queue.remove(`${root.id}/0`);
    await queue.remove(`${root.id}/1`);
    expect(await root.view()).toMatchObject({ state: "delayed" });
    let ran = 0;
    one.worker(queue, () => void ran++);
    await eventually(() => expect(ran).toBe(1));
  });

  it("are added once, also when added again", async () => {
    const queue = one.queue();
    const flow = { name: "parent", options: { id: "p" }, children: [{ name: "a" }] };
    expect((await queue.addFlow(flow)).deduplicated).toBeUndefined();
    expect((await queue.addFlow(flow)).deduplicated).toBe("exists");
    expect(await queue.counts()).toMatchObject({ waiting: 1, blocked: 1 });
  });

  it("are refused when they make no sense", async () => {
    const queue = one.queue();
    const child = { name: "a", options: { id: "x" } };
    await expect(queue.addFlow({ name: "p", children: [child] })).rejects.toThrow(InvalidFlowError);
    const delayed = { name: "p", options: { delayMs: 5 }, children: [{ name: "a" }] };
    await expect(queue.addFlow(delayed)).rejects.toThrow(/not for a time/);
  });
});
