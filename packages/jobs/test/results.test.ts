import { connect } from "@ropeway/core";
import { eventually, startProxy } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import {
  JobCancelledError,
  type JobContext,
  JobFailedError,
  JobRemovedError,
  JobTimeoutError,
  Queue,
} from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 15_000 };

describe("whoever awaits a job", () => {
  it("is told when it is cancelled, removed or drained", async () => {
    const queue = one.queue();
    const [a, b, c] = await queue.addBulk([{ name: "a" }, { name: "b" }, { name: "c" }]);
    const results = [a, b, c].map((job) => job?.result({ timeoutMs: 10_000 }));
    const settled = Promise.allSettled(results);
    const { awaited } = queueKeys("ropeway:jobs", queue.name);
    await eventually(async () => expect(await one.redis.send(["SCARD", awaited])).toBe(3), soon);
    await a?.cancel("not needed");
    await b?.remove();
    await queue.drain();
    const reasons = (await settled).map((result) => (result as PromiseRejectedResult).reason);
    expect(reasons[0]).toBeInstanceOf(JobCancelledError);
    expect(reasons[0]).toMatchObject({ details: { reason: "not needed" } });
    expect(reasons[1]).toBeInstanceOf(JobRemovedError);
    expect(reasons[2]).toBeInstanceOf(JobRemovedError);
    expect(await one.redis.send(["EXISTS", awaited])).toBe(0);
  });

  it("gets the errors of this library by their class, others as JobFailedError", async () => {
    const queue = one.queue();
    one.worker(queue, {
      slow: () => new Promise(() => {}),
      bad: () => {
        throw new TypeError("no such thing");
      },
    });
    const slow = await queue.add("slow", 1, { timeoutMs: 20, awaited: true });
    const error = await slow.result({ timeoutMs: 10_000 }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(JobTimeoutError);
    expect(error).toMatchObject({ details: { id: slow.id, timeoutMs: 20 } });
    const bad = await queue.run("bad", 1, { timeoutMs: 10_000 }).catch((reason: unknown) => reason);
    expect(bad).toBeInstanceOf(JobFailedError);
    expect((bad as JobFailedError).failure).toMatchObject({ name: "TypeError" });
  });

  it.each([1, { count: 1, ageMs: 1 }])(
    "finds its outcome for a minute with keep %j",
    async (completed) => {
      const queue = one.queue({ defaults: { keep: { completed } } });
      const { timers, completed: kept } = queueKeys("ropeway:jobs", queue.name);
      one.worker(queue, (job: JobContext) => job.data, { concurrency: 5 });
      const bulk = [0, 1, 2, 3, 4].map((data) => ({ name: "n", data, options: { awaited: true } }));
      const jobs = await queue.addBulk(bulk);
      await queue.run("n", "not awaited by anybody else", { timeoutMs: 15_000 });
      await eventually(async () => expect((await queue.counts()).totals.completed).toBe(6), soon);
      expect(await Promise.all(jobs.map((job) => job.result({ timeoutMs: 15_000 })))).toEqual([
        0, 1, 2, 3, 4,
      ]);
      for (const timer of await one.redis.send<string[]>(["ZRANGE", timers, "0", "-1"])) {
        await one.redis.send(["ZADD", timers, "1", timer]); // the minute is over
      }
      await queue.add("last", 0, { delayMs: 1 });
      await eventually(async () => {
        expect(await one.redis.send(["ZCARD", kept])).toBeLessThanOrEqual(1);
        expect(await one.redis.send(["ZCARD", timers])).toBeLessThanOrEqual(1);
      }, soon);
    },
  );

  it("keeps no more jobs than asked for when the minute is over, although no other job ends", async () => {
    const queue = one.queue({ defaults: { keep: { completed: 1 } } });
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const worker = one.worker(queue, () => 1, { concurrency: 3 });
    await queue.addBulk([1, 2, 3].map((data) => ({ name: "n", data, options: { awaited: true } })));
    await eventually(
      async () => expect(await queue.counts()).toMatchObject({ completed: 3 }),
      soon,
    );
    await worker.close();
    const { timers } = store.keys;
    for (const timer of await one.redis.send<string[]>(["ZRANGE", timers, "0", "-1"])) {
      await one.redis.send(["ZADD", timers, "1", timer]);
    }
    await store.move(100);
    expect(await queue.counts()).toMatchObject({ completed: 1 });
  });

  it("is not told of the removal of an earlier job with the id, if that message is late", async () => {
    const queue = one.queue();
    const { awaited, results } = queueKeys("ropeway:jobs", queue.name);
    await queue.add("n", 1, { id: "reused" });
    const result = queue.result("reused", { timeoutMs: 10_000 });
    await eventually(async () => expect(await one.redis.send(["SCARD", awaited])).toBe(1), soon);
    for (const message of ["reused\nremoved", "reused\ncancelled\nwhy", ""]) {
      expect(await one.redis.send(["PUBLISH", results, message])).toBe(1);
    }
    one.worker(queue, () => "done");
    expect(await result).toBe("done");
  });

  it("is told that its job was removed although another job has the id", async () => {
    const queue = one.queue();
    const { awaited, results } = queueKeys("ropeway:jobs", queue.name);
    await queue.add("n", 1, { id: "reused" });
    const result = queue.result("reused", { timeoutMs: 10_000 });
    await eventually(async () => expect(await one.redis.send(["SCARD", awaited])).toBe(1), soon);
    await one.redis.send([
      "HSET",
      queueKeys("ropeway:jobs", queue.name).jobs,
      "reused",
      "1;0;0;\nn\n1",
    ]);
    expect(await one.redis.send(["PUBLISH", results, "reused\nremoved"])).toBe(1);
    await expect(result).rejects.toThrow(JobRemovedError);
  });

  it("finds its outcome although jobs that end later are kept by number", async () => {
    const queue = one.queue();
    one.worker(queue, (job: JobContext) => job.data);
    const first = await queue.add("n", "first", { awaited: true });
    const later = { keep: { completed: 2 } };
    for (let i = 0; i < 5; i++) await queue.add("n", i, later);
    await eventually(async () => expect((await queue.counts()).totals.completed).toBe(6), soon);
    expect(await first.result({ timeoutMs: 15_000 })).toBe("first");
  });

  it("is told of an end that came while its connection was away", async () => {
    const proxy = await startProxy({ host: one.server.host, port: one.server.port });
    const redis = await connect(`redis://127.0.0.1:${proxy.port}`);
    const queue = new Queue(redis, `gap ${Math.random()}`);
    const near = one.queue({}, queue.name);
    const job = await queue.add("n");
    const result = job.result({ timeoutMs: 30_000 });
    const { awaited } = queueKeys("ropeway:jobs", queue.name);
    await eventually(async () => expect(await one.redis.send(["SCARD", awaited])).toBe(1), soon);
    proxy.refuse();
    proxy.cut();
    one.worker(near, () => "ended meanwhile");
    await eventually(async () => expect(await near.counts()).toMatchObject({ completed: 1 }), soon);
    await proxy.heal();
    expect(await result).toBe("ended meanwhile");
    await queue.close();
    await redis.close();
    await proxy.close();
  }, 60_000);

  it("can wait although the first attempt was made while Redis was away", async () => {
    const proxy = await startProxy({ host: one.server.host, port: one.server.port });
    const redis = await connect(`redis://127.0.0.1:${proxy.port}`, { offlineWaitMs: 100 });
    const queue = new Queue(redis, `away ${Math.random()}`);
    proxy.refuse();
    proxy.cut();
    await expect(queue.result("x", { timeoutMs: 5_000 })).rejects.toThrow();
    await proxy.heal();
    one.worker(one.queue({}, queue.name), () => "back");
    const answer = await eventually(() => queue.run("n", 1, { timeoutMs: 5_000 }), soon);
    expect(answer).toBe("back");
    await queue.close();
    await redis.close();
    await proxy.close();
  }, 40_000);
});
