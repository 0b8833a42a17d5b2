/** Jobs that were taken and come back: where they wait, what is counted, and which of their data stay. */
import { setTimeout as wait } from "node:timers/promises";
import { ConnectionLostError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it, vi } from "vitest";
import {
  JobCancelledError,
  type JobContext,
  type JobOptions,
  type Queue,
  Worker,
} from "../src/index.ts";
import { QueueStore } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 15_000 };
const HOUR = 3_600_000;

const storeOf = (queue: Queue) => new QueueStore(one.redis, "ropeway:jobs", queue.name);

/** Takes jobs as a worker that does not exist; returns them with their fences. */
async function take(store: QueueStore, want: number, worker = "w") {
  const call = { worker, leaseMs: HOUR, want, done: [], undone: [] };
  const { jobs, firstFence } = await store.next(call);
  const ids = jobs.filter((_, i) => i % 2 === 0);
  return ids.map((id, i) => ({ id, fence: firstFence + i + 1 }));
}

/** Ends attempts with a verdict. */
function put(store: QueueStore, jobs: readonly { id: string; fence: number }[], how: string) {
  const undone = jobs.map((job) => ({ ...job, how, json: "{}" }));
  return store.next({ worker: "w", leaseMs: HOUR, want: 0, done: [], undone });
}

async function expire(store: QueueStore, id: string): Promise<void> {
  await one.redis.send(["ZADD", store.keys.lease, "1", id]);
  await store.move(100);
}

describe("jobs that come back", () => {
  const places: [string, JobOptions][] = [
    ["without wishes", {}],
    ["with a priority", { priority: 3 }],
    ["with a group", { group: "g" }],
  ];

  it.each(places)("%s run in the order in which they were taken", async (_, options) => {
    const queue = one.queue();
    const store = storeOf(queue);
    for (const id of ["c", "a", "d", "b", "e"]) await queue.add("n", 0, { ...options, id });
    const [c, a, d, b] = await take(store, 4);
    expect([c, a, d, b].map((job) => job?.id)).toEqual(["c", "a", "d", "b"]);
    await expire(store, "c"); // the leases expire in different runs of the mover
    await expire(store, "a");
    await put(store, [b as never], "back"); // handed back by a live worker
    await expire(store, "d");
    const again = await take(store, 5);
    expect(again.map(({ id }) => id)).toEqual(["c", "a", "d", "b", "e"]);
  });

  it.each(places)("%s more than once keep their order", async (_, options) => {
    const queue = one.queue();
    const store = storeOf(queue);
    for (const id of ["c", "a", "d", "b", "e"]) await queue.add("n", 0, { ...options, id });
    await put(store, await take(store, 4), "back");
    const [c, a] = await take(store, 2);
    await put(store, [a as never], "back"); // jobs that came back once wait behind it
    await expire(store, "c");
    const [third] = await take(store, 1);
    expect(third).toMatchObject({ id: "c", fence: (c as { fence: number }).fence + 2 });
    await put(store, [third as never], "back");
    const again = await take(store, 5);
    expect(again.map(({ id }) => id)).toEqual(["c", "a", "d", "b", "e"]);
  });

  it.each(places)(
    "%s are cancelled like others, and show since when they run",
    async (_, options) => {
      const queue = one.queue();
      const store = storeOf(queue);
      await queue.add("n", 0, { ...options, id: "a" });
      await put(store, await take(store, 1), "back");
      const [job] = await take(store, 1);
      expect((await queue.get("a"))?.activeSince).toBeGreaterThan(Date.now() - HOUR);
      await queue.cancel("a", "for a reason");
      await queue.cancel("a", "for another");
      expect((await queue.get("a"))?.cancelling).toBe("for a reason");
      const sign = { worker: "w", leaseMs: HOUR, description: "{}", held: [job as never] };
      const { cancelled } = await store.renew(sign);
      expect([...cancelled]).toEqual([["a", "for a reason"]]);
      await put(store, [job as never], "back");
      expect((await queue.get("a"))?.failure?.code).toBe("JOB_CANCELLED");
    },
  );

  it("wait after urgent jobs and before all others, and can be changed there", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    for (const id of ["a", "b", "c"]) await queue.add("n", 0, { id });
    await put(store, await take(store, 3), "back");
    await queue.add("n", 0, { id: "late", priority: 1 });
    await queue.add("n", 0, { id: "new" });
    await queue.add("n", 0, { id: "urgent", priority: -1 });
    await queue.remove("b");
    await queue.update("c", { data: 1, priority: 0 });
    expect(await queue.counts()).toMatchObject({ waiting: 5, active: 0 });
    const ids = (await take(store, 9)).map(({ id }) => id);
    expect(ids).toEqual(["urgent", "a", "c", "new", "late"]);
  });

  it("are what the age of the oldest waiting job is about", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    await queue.add("n", 0, { id: "old" });
    await one.redis.send(["HSET", store.keys.jobs, "old", "1000;0;0;\nn\n0"]);
    await put(store, await take(store, 1), "back");
    await queue.add("n", 0, { id: "new" });
    expect((await queue.counts()).oldestWaitingMs).toBeGreaterThan(HOUR);
  });
});

describe("a call whose reply was lost", () => {
  it("costs the jobs it took neither a stall nor the length of a lease", async () => {
    const queue = one.queue();
    await queue.addBulk([1, 2, 3].map((data) => ({ name: "n", data })));
    const real = QueueStore.prototype.next;
    const next = vi.spyOn(QueueStore.prototype, "next");
    next.mockImplementationOnce(async function (this: QueueStore, exchange) {
      expect((await real.call(this, exchange)).jobs.length).toBeGreaterThan(0);
      throw new ConnectionLostError("redis:6379", "the reply was lost");
    });
    const seen: [unknown, number][] = [];
    const lost: string[] = [];
    const worker = one.worker(queue, (job: JobContext) => void seen.push([job.data, job.stalls]), {
      leaseMs: HOUR,
      concurrency: 3,
    });
    worker.on("lost", (id) => void lost.push(id));
    worker.on("error", () => {});
    await eventually(() => expect(seen).toHaveLength(3), soon);
    next.mockRestore();
    expect(seen).toEqual([1, 2, 3].map((data) => [data, 0]));
    expect(lost).toEqual([]);
    await eventually(async () => expect(await queue.counts()).toMatchObject({ active: 0 }), soon);
  });

  it("does not touch what the worker runs, nor the jobs of others", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    await queue.addBulk([1, 2, 3].map((data) => ({ name: "n", data })));
    const [foreign] = await take(store, 1, "somebody");
    const runs: unknown[] = [];
    let release: () => void = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const worker = one.worker(
      queue,
      async (job: JobContext) => {
        runs.push(job.data);
        await held;
      },
      { leaseMs: HOUR, concurrency: 3 },
    );
    worker.on("error", () => {});
    await eventually(() => expect(runs).toEqual([2, 3]), soon);
    const real = QueueStore.prototype.next;
    const next = vi.spyOn(QueueStore.prototype, "next");
    next.mockImplementationOnce(async function (this: QueueStore, exchange) {
      await real.call(this, exchange);
      throw new ConnectionLostError("redis:6379", "the reply was lost");
    });
    const before = next.mock.calls.length;
    await store.wake();
    await eventually(() => expect(next.mock.calls.length).toBeGreaterThan(before + 1), soon);
    next.mockRestore();
    expect(await store.holds(foreign as never)).toBe(true);
    expect(await queue.counts()).toMatchObject({ active: 3, waiting: 0 });
    release();
    await eventually(async () => expect(await queue.counts()).toMatchObject({ active: 1 }), soon);
    expect(runs).toEqual([2, 3]);
  });
});

describe("a running job that is to be cancelled", () => {
  it.each(["back", "hold 0", "delay 0", "children", "0"])(
    "does not run again when its attempt ends with %j before the worker knows",
    async (verdict) => {
      const queue = one.queue();
      const store = storeOf(queue);
      const job = await queue.add("n", 0, { group: "g", attempts: 5 });
      const held = await take(store, 1);
      expect(await job.cancel("enough")).toBe("signalled");
      await put(store, held, verdict);
      expect(await job.view()).toMatchObject({
        state: "failed",
        failure: { code: "JOB_CANCELLED", details: { reason: "enough" } },
      });
      expect(await one.redis.send(["HGETALL", store.keys.usage])).toEqual([]);
    },
  );

  it("does not run again when its handler puts it back", async () => {
    const queue = one.queue();
    let runs = 0;
    const failed: unknown[] = [];
    const worker = one.worker(queue, async (job: JobContext) => {
      runs += 1;
      await new Promise((resolve) => job.signal.addEventListener("abort", resolve));
      job.delay(0);
    });
    worker.on("failed", (job, error, final) => void failed.push([job.id, error, final]));
    const job = await queue.add("n", 0, { awaited: true });
    await eventually(() => expect(runs).toBe(1), soon);
    await job.cancel("enough");
    await expect(job.result({ timeoutMs: 15_000 })).rejects.toMatchObject({
      code: "JOB_CANCELLED",
    });
    expect(failed).toMatchObject([[job.id, { code: "JOB_CANCELLED" }, true]]);
    expect(runs).toBe(1);
  });

  it("fails as cancelled although its handler threw what the aborted signal caused", async () => {
    const queue = one.queue();
    let runs = 0;
    one.worker(queue, async (job: JobContext) => {
      runs += 1;
      await wait(60_000, undefined, { signal: job.signal });
    });
    const job = await queue.add("n", 0, { awaited: true, attempts: 3 });
    await eventually(() => expect(runs).toBe(1), soon);
    await job.cancel("enough");
    const result = job.result({ timeoutMs: 15_000 });
    await expect(result).rejects.toBeInstanceOf(JobCancelledError);
    await expect(result).rejects.toThrow(/was cancelled: enough$/);
    const view = await job.view();
    expect(view?.failures?.map(({ name }) => name)).toEqual(["AbortError", "JobCancelledError"]);
    expect(runs).toBe(1);
  });

  it("fails as cancelled if its last attempt failed before the worker knew", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    const job = await queue.add("n");
    const held = await take(store, 1);
    await job.cancel();
    await put(store, held, "dead");
    expect(await job.view()).toMatchObject({
      state: "failed",
      failure: { code: "JOB_CANCELLED", message: `job ${job.id} was cancelled` },
    });
  });

  it("does not run at all if it was handed over and nobody took it", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    const idle = { worker: "gone", leaseMs: HOUR, want: 1, idleMs: HOUR, done: [], undone: [] };
    await store.next(idle); // and dies
    const job = await queue.add("n");
    expect(await job.view()).toMatchObject({ state: "active", worker: "handover" });
    await job.cancel("enough");
    await expire(store, job.id);
    expect(await job.view()).toMatchObject({ state: "failed", stalls: 0 });
    expect(await one.redis.send(["ZRANGEBYSCORE", store.keys.wake, "-inf", "-1"])).toEqual([]);
  });
});

it.each([
  null,
  5, // with a limit, next.lua takes another path
])("leaves no notes when it was put back and then completed (limit %j)", async (concurrency) => {
  const queue = one.queue();
  const store = storeOf(queue);
  await queue.setLimits({ concurrency });
  let runs = 0;
  one.worker(queue, async (job: JobContext) => {
    runs += 1;
    if (runs > 1) return;
    await job.progress(50);
    job.delay(0);
  });
  const job = await queue.add("n", 0);
  await eventually(async () => expect(await job.view()).toBeUndefined(), soon);
  expect(runs).toBe(2);
  expect(await one.redis.send(["HGETALL", store.keys.notes])).toEqual([]);
});

it("a worker that missed the end of its queue cannot end a later job with the same id and fence", async () => {
  const queue = one.queue();
  const store = storeOf(queue);
  const runs: string[] = [];
  let release: () => void = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  await queue.add("n", "first", { id: "same" });
  const lost: string[] = [];
  const worker = one.keep(
    new Worker(
      one.redis,
      queue.name,
      async (job) => {
        runs.push(String(job.data));
        await held;
      },
      { leaseMs: HOUR },
    ),
  );
  worker.on("lost", (id) => void lost.push(id));
  await eventually(() => expect(runs).toEqual(["first"]), soon);
  const fence = (await queue.get("same"))?.fence as number;
  await queue.pause(); // this worker takes no more jobs
  await queue.obliterate({ force: true });
  await one.redis.send(["HSET", store.keys.meta, "fence", String(fence - 1)]); // as if a failover had lost the last one
  await queue.add("n", "second", { id: "same" });
  const [second] = await take(store, 1, "another");
  expect(second).toMatchObject({ id: "same", fence });
  release();
  await eventually(() => expect(lost).toEqual(["same"]), soon);
  expect(await queue.get("same")).toMatchObject({ state: "active", worker: "another" });
});
