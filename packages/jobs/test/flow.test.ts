import { connect } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { Relay } from "../src/flow/relay.ts";
import {
  ChildFailedError,
  type FlowJob,
  InvalidFlowError,
  type JobContext,
  Queue,
} from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const bounds = { timeoutMs: 15_000 };

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

  it("end when their children are drained, cancelled or removed", async () => {
    const queue = one.queue();
    const children = [{ name: "a" }, { name: "b", options: { delayMs: 60_000 } }, { name: "c" }];
    const root = await queue.addFlow({ name: "parent", children, options: { awaited: true } });
    await queue.cancel(`${root.id}/2`);
    await queue.drain();
    one.worker(queue, async (job: JobContext) => (await job.children()).map(({ state }) => state));
    expect(await root.result(bounds)).toEqual(["removed", "removed", "removed"]);
  });

  it("are told apart by their whole ids", async () => {
    const queue = one.queue();
    one.worker(queue, { child: () => "c", parent: (job: JobContext) => job.children() });
    const ids = ["night", "nnight", "c", "cnight", "x"];
    const roots = await Promise.all(
      ids.map((id) => {
        const options = { id, awaited: true };
        return queue.addFlow({ name: "parent", options, children: [{ name: "child", data: id }] });
      }),
    );
    for (const root of roots) expect(await root.result(bounds)).toHaveLength(1);
  });

  it("have at most 100 levels", async () => {
    const queue = one.queue();
    const chain = (levels: number): FlowJob =>
      levels === 1 ? { name: "n" } : { name: "n", children: [chain(levels - 1)] };
    await expect(queue.addFlow(chain(101))).rejects.toThrow(InvalidFlowError);
    const wide = { name: "n", children: [chain(99), chain(99)] };
    const root = await queue.addFlow(wide);
    expect(await queue.counts()).toMatchObject({ blocked: 197, waiting: 2 });
    one.worker(queue, () => {
      throw new Error("bad");
    });
    await eventually(async () => expect(await root.view()).toMatchObject({ state: "failed" }));
  });

  it("are added even if their messages for other queues must wait", async () => {
    const [a, b] = [one.queue(), one.queue()];
    await one.server.command("ACL", "SETUSER", "bea", "on", ">pw", "~*", "&*", "+@all", "-hscan");
    const redis = await connect(one.server.url.replace("redis://", "redis://bea:pw@"));
    const producer = one.keep(new Queue(redis, a.name));
    const root = await producer.addFlow({ name: "p", children: [{ name: "c", queue: b.name }] });
    expect(await root.view()).toMatchObject({ state: "blocked" });
    await redis.close();
    one.worker(a, () => 1);
    await eventually(async () => expect(await b.counts()).toMatchObject({ waiting: 1 }));
  });

  it("are added as a whole or not at all", async () => {
    const queue = one.queue();
    await queue.add("taken", 1, { id: "flow/1" });
    const children = [{ name: "a" }, { name: "b" }];
    const flow = queue.addFlow({ name: "parent", options: { id: "flow" }, children });
    await expect(flow).rejects.toThrow(/has a job flow\/1 already/);
    expect(await queue.counts()).toMatchObject({ waiting: 1, blocked: 0 });
    expect(await queue.get("flow")).toBeUndefined();
    const bad = queue.addFlow({ name: "parent", options: { id: "a\nb" }, children });
    await expect(bad).rejects.toMatchObject({ code: "INVALID_NAME" });
  });

  it("refuse children with a dedupe key or an id of their own", async () => {
    const queue = one.queue();
    for (const options of [{ dedupe: "k" }, { id: "x" }]) {
      const flow = queue.addFlow({ name: "p", children: [{ name: "a", options }] });
      await expect(flow).rejects.toThrow(InvalidFlowError);
    }
  });

  it("have the queue's defaults", async () => {
    const queue = one.queue({ defaults: { attempts: 4, priority: 2 } });
    const root = await queue.addFlow({ name: "p", children: [{ name: "a" }] });
    expect(await root.view()).toMatchObject({ maxAttempts: 4, priority: 2 });
    expect(await queue.get(`${root.id}/0`)).toMatchObject({ maxAttempts: 4, priority: 2 });
  });

  it("fail, go on, or forget the child, as each child's policy says", async () => {
    const queue = one.queue();
    one.worker(queue, {
      bad: () => Promise.reject(new Error("bad child")),
      parent: async (job: JobContext) => (await job.children()).map(({ state }) => state),
    });
    const bad = (onFailure: "fail" | "ignore" | "remove"): FlowJob => ({ name: "bad", onFailure });
    const options = { awaited: true };
    const children = [bad("ignore"), bad("remove")];
    const lenient = await queue.addFlow({ name: "parent", children, options });
    expect(await lenient.result(bounds)).toEqual(["failed", "removed"]);
    const strict = await queue.addFlow({
      name: "parent",
      options,
      onChildFailure: "ignore",
      children: [...children, bad("fail")],
    });
    const error = await strict.result(bounds).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ChildFailedError);
    expect(error).toMatchObject({ details: { child: `${strict.id}/2` } });
  });

  it("leave nothing behind when a parent is removed before its children end", async () => {
    const queue = one.queue();
    const { children: outcomes } = queueKeys("ropeway:jobs", queue.name);
    const root = await queue.addFlow({ name: "p", children: [{ name: "a" }, { name: "b" }] });
    await queue.remove(root.id);
    one.worker(queue, () => "done");
    await eventually(async () => {
      expect((await queue.counts()).totals.completed).toBe(2);
    });
    expect(await one.redis.send(["EXISTS", outcomes])).toBe(0);
  });
});

describe("an id that is used again", () => {
  it("has nothing to do with the children of its earlier life", async () => {
    const queue = one.queue();
    const options = { id: "p" };
    await queue.addFlow({ name: "p", options, children: [{ name: "a" }, { name: "b" }] });
    await queue.remove("p");
    await queue.remove("p/0");
    await queue.addFlow({ name: "p", options, children: [{ name: "c" }] });
    await queue.remove("p/1"); // of the first flow
    expect(await queue.get("p")).toMatchObject({ state: "blocked" });
    expect(await queue.children("p")).toEqual([{ id: "p/0", state: "pending" }]);
  });

  it("is free although its children are kept, in whichever queue", async () => {
    const [a, b] = [one.queue(), one.queue()];
    const handlers = {
      bad: () => {
        throw new Error("bad");
      },
      good: () => "good",
      parent: (job: JobContext) => job.children(),
      adding: async (job: JobContext) => {
        if ((await job.children()).length > 0) return job.children();
        await job.addChildren([{ name: "bad", onFailure: "ignore" }]);
        return job.waitForChildren();
      },
    };
    one.worker(a, handlers);
    one.worker(b, handlers);
    const keep = { completed: true };
    const flow = {
      name: "parent",
      options: { id: "nightly", awaited: true },
      onChildFailure: "ignore" as const,
      children: [
        { name: "bad" },
        { name: "good", options: { keep }, children: [{ name: "good", options: { keep } }] },
        { name: "bad", queue: b.name },
      ],
    };
    for (let night = 0; night < 2; night++) {
      const root = await a.addFlow(flow);
      expect(root.deduplicated).toBeUndefined();
      expect(await root.result(bounds)).toMatchObject([
        { state: "failed", failure: { message: "bad" } },
        { state: "completed" },
        { state: "failed", failure: { message: "bad" } },
      ]);
      expect(await a.run("adding", 0, { id: "adding", ...bounds })).toMatchObject([
        { state: "failed", failure: { message: "bad" } },
      ]);
      await a.remove("nightly");
      await a.remove("adding");
    }
    expect(await a.counts()).toMatchObject({ failed: 2, completed: 2 });
    expect(await b.counts()).toMatchObject({ failed: 1 });
  }, 60_000);

  it("is not free for a flow while a child of its earlier life or another job has a child's id", async () => {
    const queue = one.queue();
    const flow = { name: "p", options: { id: "p" }, children: [{ name: "c" }] };
    await queue.addFlow(flow);
    await queue.remove("p");
    await expect(queue.addFlow(flow)).rejects.toThrow(InvalidFlowError);
    await queue.remove("p/0");
    const worker = one.worker(queue, () => "kept");
    const other = await queue.add("other", 1, { id: "p/0", keep: { completed: true } });
    await eventually(async () => expect(await other.view()).toMatchObject({ state: "completed" }));
    await worker.close();
    await expect(queue.addFlow(flow)).rejects.toThrow(InvalidFlowError);
    expect(await other.view()).toMatchObject({ state: "completed", name: "other" });
  });

  it("is not touched by an outcome that was on its way to its earlier life", async () => {
    const [a, b] = [one.queue(), one.queue()];
    const flow = { name: "p", options: { id: "p" }, children: [{ name: "c", queue: b.name }] };
    await a.addFlow(flow);
    await a.obliterate();
    await b.remove(`${a.name}:p/0`); // reported through the outbox of b
    await a.addFlow(flow);
    expect(await b.get(`${a.name}:p/0`)).toMatchObject({ state: "waiting" });
    await new Relay(new QueueStore(one.redis, "ropeway:jobs", b.name), (error) => {
      throw error;
    }).deliver();
    expect(await a.get("p")).toMatchObject({ state: "blocked" });
  });
});
