/** Flows whose jobs are in several queues, and the messages between these queues. */
import { eventually } from "@ropeway/testkit";
import { describe, expect, it, vi } from "vitest";
import { FlowPlanner } from "../src/flow/flow.ts";
import { Relay } from "../src/flow/relay.ts";
import {
  ChildFailedError,
  type JobContext,
  JobRemovedError,
  MalformedJobError,
} from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { AdminStore } from "../src/store/admin-store.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const bounds = { timeoutMs: 10_000 };

describe("flows across queues", () => {
  it("get children from a running job, each in its place", async () => {
    const [a, b] = [one.queue(), one.queue()];
    one.worker([b], (job: JobContext) => `${job.data} in ${job.queue}`);
    one.worker([a], async (job: JobContext) => {
      const outcomes = await job.children();
      if (outcomes.length > 0) return outcomes.map((child) => ({ ...child }));
      const [first, second] = await Promise.all([
        job.addChildren([1, 2].map((data) => ({ name: "c", data, queue: b.name }))),
        job.addChildren([{ name: "c", data: 3, queue: b.name }]),
      ]);
      expect([...first, ...second]).toEqual([0, 1, 2].map((place) => `${job.id}/${place}`));
      return job.waitForChildren();
    });
    const results = await a.run("p", 0, bounds);
    expect(results).toMatchObject([1, 2, 3].map((n) => ({ result: `${n} in ${b.name}` })));
  }, 40_000);

  it("run children in other queues, and theirs, with their results and policies", async () => {
    const [a, b, c] = [one.queue(), one.queue(), one.queue()];
    const state = (job: JobContext) =>
      job.children().then((all) => all.map((x) => (x.state === "completed" ? x.result : x.state)));
    one.worker([a], { root: state, local: () => "here" });
    one.worker([b], {
      middle: state,
      leaf: (job: JobContext) => `leaf ${job.data} in ${job.queue}`,
    });
    one.worker([c], { bad: () => Promise.reject(new Error("bad")) });
    const options = { awaited: true, id: "root" };
    const root = await a.addFlow({
      name: "root",
      options,
      children: [
        { name: "local" },
        {
          name: "middle",
          queue: b.name,
          children: [
            { name: "leaf", data: 1 },
            { name: "bad", queue: c.name, onFailure: "ignore" },
          ],
        },
        { name: "leaf", data: 2, queue: b.name },
      ],
    });
    const middle = [`leaf 1 in ${b.name}`, "failed"];
    expect(await root.result({ timeoutMs: 20_000 })).toEqual([
      "here",
      middle,
      `leaf 2 in ${b.name}`,
    ]);
    for (const queue of [a, b, c]) {
      const { outbox } = queueKeys("ropeway:jobs", queue.name);
      await eventually(async () => expect(await one.redis.send(["EXISTS", outbox])).toBe(0));
    }
  }, 40_000);

  it("survive that their producer died after the parent was added", async () => {
    const [a, b] = [one.queue(), one.queue()];
    const store = new QueueStore(one.redis, "ropeway:jobs", a.name);
    const planner = new FlowPlanner({ queue: a.name, defaults: undefined, traceparent: undefined });
    const flow = {
      name: "p",
      options: { awaited: true },
      children: [{ name: "c", queue: b.name }],
    };
    const jobs = planner.plan(flow, "p");
    await store.add({ jobs, whole: true, producer: "dead.0", number: 1 }); // and no relay
    one.worker([b], () => "child");
    one.worker([a], (job: JobContext) => job.children());
    const [child] = (await a.result("p", { timeoutMs: 20_000 })) as { result: unknown }[];
    expect(child).toMatchObject({ state: "completed", result: "child" });
  }, 40_000);

  it("deliver a message once, however often it is carried", async () => {
    const [a, b] = [one.queue(), one.queue()];
    const store = new QueueStore(one.redis, "ropeway:jobs", a.name);
    const planner = new FlowPlanner({ queue: a.name, defaults: undefined, traceparent: undefined });
    const jobs = planner.plan({ name: "p", children: [{ name: "c", queue: b.name }] }, "p");
    await store.add({ jobs, whole: true, producer: "x.0", number: 1 });
    const { messages } = await store.outbox("0");
    const relay = new Relay(store, (error) => {
      throw error;
    });
    expect(await relay.deliver()).toBe(1);
    let runs = 0;
    const worker = one.worker([b], () => void runs++);
    await eventually(async () => expect((await b.counts()).totals.completed).toBe(1));
    // The process died before it could delete the message, so another one delivers it again.
    for (const [number, json] of messages) {
      await one.redis.send(["HSET", store.keys.outbox, number, json]);
    }
    await relay.deliver();
    await worker.close();
    expect(runs).toBe(1);
    expect(await b.counts()).toMatchObject({ waiting: 0 });
  });

  describe("whose carrier died, and which the other queue has forgotten,", () => {
    /** A flow with a message that was delivered two hours ago and was not deleted. */
    async function carried(keep?: { completed: number }) {
      const [a, b] = [one.queue(), one.queue()];
      const store = new QueueStore(one.redis, "ropeway:jobs", a.name);
      const context = { queue: a.name, defaults: undefined, traceparent: undefined };
      const child = { name: "c", queue: b.name, ...(keep ? { options: { keep } } : {}) };
      const jobs = new FlowPlanner(context).plan({ name: "p", children: [child] }, "p");
      await store.add({ jobs, whole: true, producer: "x.0", number: 1 });
      const { messages } = await store.outbox("0");
      const relay = new Relay(store, (error) => {
        throw error;
      });
      await relay.deliver();
      const again = async () => {
        await one.redis.send(["DEL", queueKeys("ropeway:jobs", b.name).adds]);
        for (const [number, json] of messages) {
          const message = { ...JSON.parse(json), at: JSON.parse(json).at - 7_200_000 };
          await one.redis.send(["HSET", store.keys.outbox, number, JSON.stringify(message)]);
        }
        await relay.deliver();
        expect(await one.redis.send(["HLEN", store.keys.outbox])).toBe(0);
      };
      return { a, b, again };
    }

    it("leave a child alone that still waits", async () => {
      const { a, b, again } = await carried();
      await again();
      expect(await b.counts()).toMatchObject({ waiting: 1 });
      expect(await a.counts()).toMatchObject({ blocked: 1, failed: 0 });
    });

    it.each([undefined, { completed: 10 }])(
      "do not run a child again that has ended",
      async (keep) => {
        const { a, b, again } = await carried(keep);
        one.worker([b], () => 7);
        await eventually(async () => expect(await a.counts()).toMatchObject({ delayed: 1 }));
        await again();
        expect(await b.counts()).toMatchObject({ waiting: 0, totals: { completed: 1 } });
      },
    );

    it("do not run a child again whose parent is gone", async () => {
      const { a, b, again } = await carried();
      one.worker([a, b], () => 7);
      await eventually(async () => expect((await a.counts()).totals.completed).toBe(1));
      await one.closeAll();
      await again();
      expect((await b.counts()).waiting).toBe(0);
    });
  });

  it("are delivered past messages that cannot be, and what is no message is dropped", async () => {
    const [a, broken, b] = [one.queue(), one.queue(), one.queue()];
    await one.redis.send(["SET", queueKeys("ropeway:jobs", broken.name).jobs, "foreign"]);
    const store = new QueueStore(one.redis, "ropeway:jobs", a.name);
    const { outbox } = store.keys;
    const context = { queue: a.name, defaults: undefined, traceparent: undefined };
    const message = (number: number, queue: string) => {
      const flow = { name: "p", children: [{ name: "c", queue }] };
      const { where } = new FlowPlanner(context).plan(flow, `p${number}`)[1] as { where: string };
      return [String(number), where.slice(1)];
    };
    const stuck = Array.from({ length: 600 }, (_, number) => message(number, broken.name));
    const others = [message(600, b.name), ["601", "no message"]];
    await one.redis.send(["HSET", outbox, ...stuck.flat(), ...others.flat()]);
    const errors: unknown[] = [];
    const relay = new Relay(store, (error) => void errors.push(error));
    for (let i = 0; i < 12; i++) await relay.deliver(); // about 100 at a time
    expect(await b.counts()).toMatchObject({ waiting: 1 });
    expect(await one.redis.send(["HLEN", outbox])).toBe(600);
    expect(errors.some((error) => error instanceof MalformedJobError)).toBe(true);
    await a.obliterate();
  }, 60_000);

  it("fail the parent if a child's id is taken in its queue", async () => {
    const [a, b] = [one.queue(), one.queue()];
    await b.add("other", 1, { id: `${a.name}:p/0` });
    const options = { id: "p", awaited: true };
    const root = await a.addFlow({ name: "p", options, children: [{ name: "c", queue: b.name }] });
    await expect(root.result(bounds)).rejects.toThrow(ChildFailedError);
  });
});

describe("a queue that is obliterated", () => {
  it("tells the parents of its jobs in other queues, whatever the jobs do", async () => {
    const [a, b] = [one.queue(), one.queue()];
    const queue = b.name;
    const children = [
      { name: "waiting", queue },
      { name: "running", queue },
      { name: "parent", queue, children: [{ name: "below" }] },
      { name: "ended", queue },
    ];
    const parent = await a.addFlow({ name: "p", options: { awaited: true }, children });
    const store = new QueueStore(one.redis, "ropeway:jobs", queue);
    const taken = async (want: number) => {
      const call = { worker: "w", leaseMs: 60_000, want, done: [], undone: [] };
      const { jobs, firstFence } = await store.next(call);
      return jobs.filter((_, i) => i % 2 === 0).map((id, i) => ({ id, fence: firstFence + i + 1 }));
    };
    const held = await taken(4);
    const at = (place: number) => {
      const { id, fence } = held.find((job) => job.id.endsWith(`${parent.id}/${place}`)) ?? {};
      return { id: String(id), fence: Number(fence) };
    };
    const undone = [{ ...at(0), how: "back", json: "" }];
    const done = [{ ...at(3), how: "s", json: "7" }];
    await store.next({ worker: "w", leaseMs: 60_000, want: 0, done, undone });
    await expect(b.obliterate()).rejects.toMatchObject({ code: "QUEUE_ACTIVE" });
    expect(await parent.view()).toMatchObject({ state: "blocked" });
    expect(await b.obliterate({ force: true })).toBe(4);
    one.worker([a], async (job: JobContext) => (await job.children()).map(({ state }) => state));
    expect(await parent.result(bounds)).toEqual(["removed", "removed", "removed", "completed"]);
  });

  it("keeps no parent waiting for a child that comes meanwhile", async () => {
    const [a, b] = [one.queue(), one.queue()];
    const children = [{ name: "c", queue: b.name }];
    const options = { awaited: true };
    const first = await a.addFlow({ name: "p", options, children });
    const parents = [first];
    const real = QueueStore.prototype.orphans;
    const scan = vi.spyOn(QueueStore.prototype, "orphans");
    scan.mockImplementationOnce(async function (this: QueueStore, ...args) {
      const page = await real.apply(this, args);
      parents.push(await a.addFlow({ name: "p", options, children }));
      return page;
    });
    await b.obliterate();
    scan.mockRestore();
    one.worker([a], async (job: JobContext) => (await job.children()).map(({ state }) => state));
    one.worker([b], () => 1);
    const outcomes = await Promise.all(parents.map((parent) => parent.result(bounds)));
    expect(outcomes).toEqual([["removed"], ["completed"]]);
  });

  it("tells the parents later if the first call was interrupted", async () => {
    const [a, b] = [one.queue(), one.queue()];
    const child = { name: "c", queue: b.name };
    const parent = await a.addFlow({ name: "p", options: { awaited: true }, children: [child] });
    const scan = vi.spyOn(QueueStore.prototype, "orphans");
    scan.mockRejectedValueOnce(new Error("the process died"));
    await expect(b.obliterate()).rejects.toThrow("died");
    scan.mockRestore();
    await b.add("new");
    expect(await b.obliterate()).toBe(1);
    const { all, gone, goneoutbox } = queueKeys("ropeway:jobs", b.name);
    expect(await one.redis.send(["EXISTS", ...all, gone, goneoutbox])).toBe(0);
    one.worker([a], async (job: JobContext) => (await job.children()).map(({ state }) => state));
    expect(await parent.result(bounds)).toEqual(["removed"]);
  });

  it("says again how many jobs it had if the reply was lost", async () => {
    const queue = one.queue();
    const store = new AdminStore(new QueueStore(one.redis, "ropeway:jobs", queue.name));
    await queue.addBulk([{ name: "n" }, { name: "n" }]);
    expect(await store.obliterate(false, "token")).toBe(2);
    expect(await store.obliterate(false, "token")).toBe(2);
    expect(await store.obliterate(false, "another call")).toBe(-2);
    await store.forgetGone("token");
    expect(await store.obliterate(false, "another call")).toBe(0);
  });

  it("gives new messages other numbers than the old ones, which may be on their way", async () => {
    const [a, b] = [one.queue(), one.queue()];
    const store = new QueueStore(one.redis, "ropeway:jobs", b.name);
    const child = { name: "c", queue: b.name };
    const numbers: string[] = [];
    for (let life = 0; life < 2; life++) {
      await a.addFlow({ name: "p", children: [child] });
      const [waiting] = (await b.search({ state: "waiting" })).items;
      await b.remove(String(waiting?.id));
      numbers.push(...(await store.outbox("0")).messages.keys());
      if (life === 0) await b.obliterate();
    }
    expect(numbers).toHaveLength(2);
    expect(numbers[0]).not.toBe(numbers[1]);
  });

  it("tells those who await its jobs", async () => {
    const queue = one.queue();
    const jobs = [await queue.add("n"), await queue.add("n", 1, { delayMs: 60_000 })];
    const results = jobs.map((job) => job.result(bounds).catch((error: unknown) => error));
    const { awaited } = queueKeys("ropeway:jobs", queue.name);
    await eventually(async () => expect(await one.redis.send(["SCARD", awaited])).toBe(2));
    await queue.obliterate();
    for (const error of await Promise.all(results)) expect(error).toBeInstanceOf(JobRemovedError);
  });
});
