/** An id can be used again, and nothing of an earlier job with this id affects the new job. */
import { connect } from "@ropeway/core";
import { eventually, startProxy } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { type JobContext, Queue } from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 15_000 };
const HOUR = 3_600_000;

describe("an id that is used again", () => {
  it("is not forgotten by a timer of its earlier life", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const worker = one.worker(queue, () => "first");
    await queue.run("a", 1, { id: "x", timeoutMs: 10_000 });
    await worker.close();
    await queue.drain(["completed"]);
    expect(await one.redis.send(["ZCARD", store.keys.timers])).toBe(0);
    await queue.add("a", 2, { id: "x" });
    // Even if a timer had been left behind.
    await one.redis.send(["ZADD", store.keys.timers, "1", "jx"]);
    await store.move(100);
    expect(await queue.get("x")).toMatchObject({ state: "waiting", data: 2 });
  });

  it("is not cancelled by a mark of its earlier life", async () => {
    const queue = one.queue();
    let open: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const cancelled: boolean[] = [];
    const worker = one.worker(queue, async (job: JobContext) => {
      await gate;
      cancelled.push(job.signal.aborted);
    });
    await queue.add("a", 1, { id: "x" });
    await eventually(() => expect(worker.running).toBe(1), soon);
    expect(await queue.cancel("x", "first life")).toBe("signalled");
    expect(await queue.cancel("x", "again")).toBe("signalled");
    expect(await queue.get("x")).toMatchObject({ cancelling: "first life" });
    open(); // its handler still completes
    await eventually(async () => expect(await queue.get("x")).toBeUndefined(), soon);
    await queue.add("a", 2, { id: "x" });
    await eventually(() => expect(cancelled).toHaveLength(2), soon);
    expect(cancelled[1]).toBe(false);
  });

  it("is not ended by a job of a queue that was deleted, although the same worker runs both", async () => {
    const queue = one.queue();
    const runs: { job: JobContext; end: (result: string) => void }[] = [];
    const handler = (job: JobContext) =>
      new Promise((resolve) => {
        runs.push({ job, end: resolve });
      });
    const worker = one.worker(queue, handler, { concurrency: 3 });
    const lost: string[] = [];
    worker.on("lost", (id) => lost.push(id));
    for (const count of [1, 2, 3]) {
      await queue.obliterate({ force: true });
      await queue.add("a", count, { id: "x", awaited: true });
      await eventually(() => expect(runs).toHaveLength(count), soon);
    }
    const [first, second, third] = runs;
    expect(second?.job.fence).toBeGreaterThan(first?.job.fence as number);
    expect(third?.job.fence).toBeGreaterThan(second?.job.fence as number);
    first?.end("first");
    second?.end("second");
    await eventually(() => expect(lost).toEqual(["x", "x"]), soon);
    expect(first?.job.signal.aborted && second?.job.signal.aborted).toBe(true);
    expect(await queue.get("x")).toMatchObject({ state: "active", data: 3 });
    const result = queue.result("x", { timeoutMs: 10_000 });
    third?.end("third");
    expect(await result).toBe("third");
  });

  it.each([{}, { concurrency: 5 }])(
    "has a larger fence after its queue was deleted, with the limits %j",
    async (limits) => {
      const queue = one.queue();
      const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
      const fences: number[] = [];
      for (let life = 0; life < 2; life++) {
        await queue.setLimits(limits);
        await queue.add("a", life, { id: "x" });
        const call = { worker: "w", leaseMs: HOUR, want: 1, done: [], undone: [] };
        const { jobs, firstFence } = await store.next(call);
        expect(jobs).toHaveLength(2);
        fences.push(firstFence);
        await queue.obliterate({ force: true });
      }
      expect(fences[1]).toBeGreaterThan(fences[0] as number);
    },
  );

  it("leaves no trace of a job that was cancelled while its worker died", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const job = await queue.add("a", 1, { attempts: 5 });
    await store.next({ worker: "w", leaseMs: HOUR, want: 1, done: [], undone: [] });
    expect(await queue.cancel(job.id, "not needed @ all")).toBe("signalled");
    expect(await queue.get(job.id)).toMatchObject({ cancelling: "not needed @ all" });
    await one.redis.send(["ZADD", store.keys.lease, "1", job.id]);
    await store.move(100);
    expect(await queue.get(job.id)).toMatchObject({
      state: "failed",
      failure: { code: "JOB_CANCELLED", details: { reason: "not needed @ all" } },
    });
  });

  it("with a dedupe key frees the key when it is drained, removed or cancelled", async () => {
    const queue = one.queue();
    const { dedupe } = queueKeys("ropeway:jobs", queue.name);
    const options = { dedupe: "k" };
    await queue.add("a", 1, options);
    await queue.drain();
    await queue.add("a", 2, options).then((job) => job.remove());
    await queue.add("a", 3, options).then((job) => job.cancel());
    expect(await one.redis.send(["EXISTS", dedupe])).toBe(0);
    const job = await queue.add("a", 4, options);
    expect(job.deduplicated).toBeUndefined();
    expect(await queue.removeDedupeKey("k")).toBe(true);
    expect(await queue.removeDedupeKey("k")).toBe(false);
    expect((await queue.add("a", 5, options)).deduplicated).toBeUndefined();
  });
});

describe("an add whose reply was lost", () => {
  it("is one job, also if that has run and is gone when the add is repeated", async () => {
    const proxy = await startProxy({ host: one.server.host, port: one.server.port });
    const redis = await connect(`redis://127.0.0.1:${proxy.port}`, { offlineWaitMs: 15_000 });
    const name = `lost ${Math.random()}`;
    const queue = new Queue(redis, name);
    await queue.counts();
    let runs = 0;
    one.worker(one.queue({}, name), () => void runs++);
    for (let round = 1; round <= 2; round++) {
      proxy.delay(1_500); // the reply is still on its way when the connection is cut
      const adding = queue.add("a", round);
      await eventually(() => expect(runs).toBe(round), soon);
      await eventually(async () => expect(await queueCount(name)).toBe(0), soon);
      proxy.cut();
      await proxy.heal();
      await adding;
    }
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(runs).toBe(2);
    await queue.close();
    await redis.close();
    await proxy.close();
  }, 60_000);

  it("says again which jobs were not added", async () => {
    const store = new QueueStore(one.redis, "ropeway:jobs", `again ${Math.random()}`);
    const job = (id: string) => ({ id, where: "", record: ";0;0;\nn\n" });
    const call = { producer: "p.0", number: 1 };
    await store.add({ ...call, jobs: [job("a")] });
    const second = { ...call, number: 2, jobs: [job("a"), job("b")] };
    const first = await store.add(second);
    expect([...first.other]).toEqual([[0, { id: "a", why: "exists" }]]);
    await one.redis.send(["DEL", store.keys.jobs, store.keys.wait]); // both have run
    expect(await store.add({ ...second, repeated: true })).toEqual(first);
    expect(await one.redis.send(["EXISTS", store.keys.jobs])).toBe(0);
  });
});

const queueCount = (name: string) =>
  one.redis.send<number>(["HLEN", queueKeys("ropeway:jobs", name).jobs]);
