/** What handlers and callers do that nobody expects. */
import { InvalidOptionError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { type JobContext, Worker } from "../src/index.ts";
import { queueKeys } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const THEN = "then";

describe("attempts", () => {
  it("fail alone when what was thrown or returned throws as soon as it is looked at", async () => {
    const queue = one.queue();
    const trap = () => {
      throw new Error("do not look");
    };
    const hidden = (property: string) =>
      Object.defineProperty(new Error(), property, { get: trap });
    const throwing: Record<string, () => unknown> = {
      name: () => hidden("name"),
      message: () => hidden("message"),
      code: () => hidden("code"),
      prototype: () => new Proxy({}, { getPrototypeOf: trap }),
      object: () => Object.assign(new Error(), { name: Object.create(null) }),
    };
    const worker = one.worker(queue, async (job: JobContext) => {
      throw throwing[job.name]?.();
    });
    const direct = one.queue();
    one.worker(direct, {
      ...Object.fromEntries(
        Object.entries(throwing).map(([name, make]) => [
          name,
          () => {
            throw make();
          },
        ]),
      ),
      getter: () => Object.defineProperty({}, THEN, { get: trap }),
      thenable: () => ({ [THEN]: trap }),
      fine: () => "fine",
    });
    const bounds = { timeoutMs: 15_000 };
    for (const name of Object.keys(throwing)) {
      for (const target of [queue, direct]) {
        await expect(target.run(name, 0, bounds)).rejects.toThrow(/cannot be read/);
      }
    }
    await expect(direct.run("getter", 0, bounds)).rejects.toThrow("do not look");
    await expect(direct.run("thenable", 0, bounds)).rejects.toThrow("do not look");
    expect(await direct.run("fine", 0, bounds)).toBe("fine");
    expect(worker.running).toBe(0);
  }, 60_000);

  it("keep a bounded part of a long message, and of a long line of the log", async () => {
    const queue = one.queue();
    one.worker(queue, async (job: JobContext) => {
      await job.log("l".repeat(100_000));
      throw new Error("m".repeat(100_000));
    });
    const job = await queue.add("a");
    await eventually(async () => expect(await job.view()).toMatchObject({ state: "failed" }));
    const view = await job.view();
    expect(view?.logs?.[0]).toHaveLength(4_000);
    expect(view?.failure?.message).toHaveLength(10_000);
  });
});

describe("results", () => {
  it("of a job that was there already are kept for whoever wants to await it", async () => {
    const queue = one.queue();
    const { awaited } = queueKeys("ropeway:jobs", queue.name);
    await queue.add("a", 1, { id: "same" });
    await queue.add("a", 1, { dedupe: "kept" });
    await queue.add("a", 1, { dedupe: { key: "replaced", mode: "replace" } });
    const handles = [
      await queue.add("a", 2, { id: "same", awaited: true }),
      await queue.add("a", 2, { dedupe: "kept", awaited: true }),
      await queue.add("a", 2, { dedupe: { key: "replaced", mode: "replace" }, awaited: true }),
    ];
    expect(handles.map((job) => job.deduplicated)).toEqual(["exists", "kept", "replaced"]);
    one.worker(queue, (job: JobContext<number>) => job.data * 10);
    await eventually(async () => expect(await queue.counts()).toMatchObject({ completed: 3 }));
    const results = await Promise.all(handles.map((job) => job.result({ timeoutMs: 5_000 })));
    expect(results).toEqual([10, 10, 20]);
    await queue.add("a", 3, { id: "same", awaited: true }); // has ended: nothing to wait for
    expect(await one.redis.send(["EXISTS", awaited])).toBe(0);
  });
});

it("a worker refuses a queue that is named twice", () => {
  expect(() => new Worker(one.redis, ["a", "b", "a"], () => 1)).toThrow(InvalidOptionError);
});
