/** The maximum size of a flow, and the cost of a large flow for Redis. */
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { FlowPlanner } from "../src/flow/flow.ts";
import { InvalidFlowError, type JobOptions } from "../src/index.ts";
import { queueKeys } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();

/** CPU time that Redis spends on `step`, in ms. It does not depend on the load of the machine. */
async function cpuMs(step: () => Promise<unknown>): Promise<number> {
  const used = async () => {
    const text = (await one.server.command("INFO", "cpu")) as string;
    const found = [...text.matchAll(/used_cpu_(?:user|sys)_main_thread:([\d.]+)/g)];
    return found.reduce((sum, [, seconds]) => sum + Number(seconds) * 1_000, 0);
  };
  const before = await used();
  await step();
  return (await used()) - before;
}

describe("a flow", () => {
  const many = (length: number) => Array.from({ length }, () => ({ name: "c" }));

  it("has at most 1,000 jobs below its root, on all levels together", async () => {
    const queue = one.queue();
    const flows = [
      { name: "p", children: many(1_001) },
      { name: "p", children: [{ name: "q", children: many(1_000) }] },
      { name: "p", children: many(1_001).map((child) => ({ ...child, queue: "elsewhere" })) },
    ];
    for (const flow of flows) {
      const added = queue.addFlow(flow);
      await expect(added).rejects.toThrow(InvalidFlowError);
      await expect(added).rejects.toThrow(/more than 1000 jobs below its root.*addChildren/);
    }
    expect(await queue.exists()).toBe(false);
    await queue.addFlow({ name: "p", children: [{ name: "q", children: many(999) }] });
    expect(await queue.counts()).toMatchObject({ waiting: 999, blocked: 2 });
  });

  it("has at most 4 MB in all its jobs", async () => {
    const queue = one.queue();
    const children = (length: number) => [
      { name: "a", data: "a".repeat(2_000_000) },
      { name: "b", data: "b".repeat(length), queue: "elsewhere" },
    ];
    const added = queue.addFlow({ name: "p", children: children(2_300_000) });
    await expect(added).rejects.toThrow(InvalidFlowError);
    expect(await queue.exists()).toBe(false);
    await queue.addFlow({ name: "p", children: children(2_100_000) });
    expect(await queue.counts()).toMatchObject({ waiting: 1, blocked: 1 });
  });

  it("that grows has at most 10,000 children of a job", () => {
    const context = { queue: "q", defaults: undefined, traceparent: undefined };
    const planner = new FlowPlanner(context);
    expect(planner.planChildren(many(1_000), "p", 9_000)).toHaveLength(1_000);
    expect(() => planner.planChildren(many(1_000), "p", 9_001)).toThrow(InvalidFlowError);
  });

  const kinds: [string, JobOptions][] = [
    ["plain", {}],
    ["with a delay", { delayMs: 60_000 }],
    ["with a group, a priority and an awaited end", { group: "g", priority: 3, awaited: true }],
  ];
  it.each(kinds)("of 1,000 children %s costs Redis less than 50 ms", async (_, options) => {
    const queue = one.queue();
    one.keep(await queue.events()); // each child is an event
    await queue.addFlow({ name: "p", children: [{ name: "c", options }] }); // loads the script
    const children = many(1_000).map((child) => ({ ...child, data: "d".repeat(100), options }));
    const costs: number[] = [];
    for (let i = 0; i < 3; i++)
      costs.push(await cpuMs(() => queue.addFlow({ name: "p", children })));
    expect(Math.min(...costs)).toBeLessThan(50);
  });

  it("that goes from queue to queue and back on every level stays small, and runs to its end", async () => {
    const [here, there] = [one.queue(), one.queue()] as const;
    type Level = { name: string; queue: string; children: Level[] };
    let deepest: Level[] = [];
    for (let level = 60; level > 1; level--) {
      const { name: queue } = level % 2 === 0 ? there : here;
      deepest = [{ name: "level", queue, children: deepest }];
    }
    for (const queue of [here, there]) one.worker(queue, () => "done");
    const flow = { name: "root", options: { keep: { completed: true } }, children: deepest };
    const planner = new FlowPlanner({
      queue: here.name,
      defaults: undefined,
      traceparent: undefined,
    });
    const bytes = planner.plan(flow, "root").reduce((sum, { where }) => sum + where.length, 0);
    expect(bytes).toBeLessThan(200_000);
    const root = await here.addFlow(flow);
    await eventually(async () => expect(await root.view()).toMatchObject({ state: "completed" }), {
      withinMs: 60_000,
    });
    for (const { name } of [here, there]) {
      expect(await one.redis.send(["EXISTS", queueKeys("ropeway:jobs", name).outbox])).toBe(0);
    }
  }, 90_000);
});
