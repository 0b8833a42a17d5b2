import { eventually } from "@ropeway/testkit";
import { describe, expect, it, vi } from "vitest";
import type { JobContext } from "../src/index.ts";
import { QueueStore, queueKeys, type Taken } from "../src/internal.ts";
import { collector, OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 15_000 };
const many = (n: number, group: string, more = {}) =>
  Array.from({ length: n }, (_, i) => ({
    name: "n",
    data: `${group}${i}`,
    options: { group, ...more },
  }));

describe("groups", () => {
  it("take turns, so that a tenant with 100,000 jobs delays nobody by more than its share", async () => {
    const queue = one.queue();
    await queue.addBulk(many(100_000, "big"));
    await queue.addBulk([...many(5, "small"), ...many(3, "tiny")]);
    const { seen, handler } = collector((job) => job.data);
    const worker = one.worker(queue, handler, { prefetch: 0 });
    await eventually(() => expect(seen.length).toBeGreaterThan(30));
    await worker.close();
    const firsts = seen.slice(0, 13);
    expect(firsts.filter((data) => String(data).startsWith("small"))).toHaveLength(5);
    expect(firsts.filter((data) => String(data).startsWith("tiny"))).toHaveLength(3);
    expect(seen.filter((data) => String(data).startsWith("big")).slice(0, 5)).toEqual([
      "big0",
      "big1",
      "big2",
      "big3",
      "big4",
    ]);
    await queue.drain();
  }, 60_000);

  it("and jobs without a group take turns too", async () => {
    const queue = one.queue();
    await queue.addBulk(Array.from({ length: 20 }, (_, i) => ({ name: "n", data: `plain${i}` })));
    await queue.addBulk(many(20, "g"));
    const { seen, handler } = collector((job) => String(job.data).replace(/\d+/, ""));
    one.worker(queue, handler, { prefetch: 0 });
    await eventually(() => expect(seen).toHaveLength(40));
    expect(seen.slice(0, 20).filter((kind) => kind === "plain")).toHaveLength(10);
  });

  it("run no more jobs at a time than each is allowed", async () => {
    const queue = one.queue();
    await queue.setLimits({ groupConcurrency: 2 });
    await queue.addBulk([...many(20, "a"), ...many(20, "b"), ...many(2, "c")]);
    const running = new Map<string, number>();
    let most = 0;
    let together = 0;
    let done = 0;
    const handler = async (job: JobContext) => {
      const group = job.group as string;
      running.set(group, (running.get(group) ?? 0) + 1);
      most = Math.max(most, running.get(group) as number);
      together = Math.max(
        together,
        [...running.values()].reduce((a, b) => a + b, 0),
      );
      await new Promise((resolve) => setTimeout(resolve, 3));
      running.set(group, (running.get(group) as number) - 1);
      done++;
    };
    one.worker(queue, handler, { concurrency: 10 });
    one.worker(queue, handler, { concurrency: 10 });
    await eventually(() => expect(done).toBe(42));
    expect(most).toBe(2);
    expect(together).toBeGreaterThanOrEqual(4);
  });

  it("are each held to their rate", async () => {
    const queue = one.queue();
    await queue.setLimits({ groupRate: { max: 20, perMs: 1_000 } });
    await queue.addBulk([...many(100, "a"), ...many(100, "b")]);
    const started = new Map<string, number[]>();
    one.worker(
      queue,
      (job: JobContext) => {
        const times = started.get(job.group as string) ?? [];
        started.set(job.group as string, times);
        times.push(performance.now());
      },
      { concurrency: 20 },
    );
    await eventually(() => expect(started.get("a")?.length).toBeGreaterThan(20));
    for (const times of started.values()) {
      const span = (times.at(-1) as number) - (times[0] as number);
      expect(times.length).toBeLessThanOrEqual(span / 50 + 2);
    }
    await queue.drain();
  });

  it("keep priorities and order within themselves", async () => {
    const queue = one.queue();
    await queue.addBulk([...many(2, "a"), ...many(2, "a", { priority: -1 })]);
    const { seen, handler } = collector((job) => job.data);
    one.worker(queue, handler, { prefetch: 0 });
    await eventually(() => expect(seen).toHaveLength(4));
    expect(seen).toEqual(["a0", "a1", "a0", "a1"]);
  });
});

describe("limits of a queue", () => {
  it("hold the rate in every window, by the clock of Redis", async () => {
    const queue = one.queue();
    const { active } = queueKeys("ropeway:jobs", queue.name);
    await queue.setLimits({ rate: { max: 200, perMs: 1_000 } });
    expect(await queue.limits()).toEqual({ rate: { max: 200, perMs: 1_000 } });
    await queue.addBulk(Array.from({ length: 2_000 }, () => ({ name: "n" })));
    // Nothing ends, so the tokens in `active` show when each job was taken.
    for (let i = 0; i < 3; i++) {
      one.worker(queue, () => new Promise(() => {}), { concurrency: 1_000, closeWithinMs: 0 });
    }
    await eventually(async () => {
      expect(await one.redis.send(["HLEN", active])).toBeGreaterThan(300);
    });
    const tokens = await one.redis.send<readonly string[]>(["HVALS", active]);
    const times = tokens.map((token) => Number(token.split("@")[2])).sort((a, b) => a - b);
    for (const [i, from] of times.entries()) {
      const inWindow = times.slice(i).filter((time) => time < from + 1_000).length;
      expect(inWindow).toBeLessThanOrEqual(200 * 1.05);
    }
    await queue.setLimits({ rate: null });
    await eventually(async () => {
      expect(await one.redis.send(["HLEN", active])).toBe(2_000);
    });
  });

  it("hold the number of running jobs over all workers", async () => {
    const queue = one.queue();
    await queue.setLimits({ concurrency: 3 });
    await queue.addBulk(Array.from({ length: 60 }, () => ({ name: "n" })));
    let [running, most, done] = [0, 0, 0];
    const handler = async () => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 2));
      running--;
      done++;
    };
    for (let i = 0; i < 3; i++) one.worker(queue, handler, { concurrency: 10, idleMs: 200 });
    await eventually(() => expect(done).toBe(60));
    expect(most).toBeLessThanOrEqual(3);
  });
});

describe("a group", () => {
  it("is not starved when a job is replaced into another group", async () => {
    const queue = one.queue();
    const { usage } = queueKeys("ropeway:jobs", queue.name);
    await queue.setLimits({ groupConcurrency: 1 });
    const dedupe = { key: "k", mode: "replace" } as const;
    await queue.add("n", 1, { group: "a", dedupe });
    await queue.add("n", 2, { group: "b", dedupe });
    await queue.add("n", 3, { group: "a" });
    const { seen, handler } = collector((job) => job.data);
    one.worker(queue, handler);
    await eventually(() => expect([...seen].sort()).toEqual([2, 3]), soon);
    await eventually(async () => expect(await one.redis.send(["EXISTS", usage])).toBe(0), soon);
  });

  it("goes on at once when its limit is raised or lifted", async () => {
    for (const lifted of [
      { groupConcurrency: 3 },
      { groupConcurrency: null },
      { groupRate: null, groupConcurrency: null },
    ]) {
      const queue = one.queue();
      await queue.setLimits({
        groupConcurrency: 1,
        ...("groupRate" in lifted ? { groupRate: { max: 1, perMs: 3_600_000 } } : {}),
      });
      const worker = one.worker(queue, () => new Promise(() => {}), {
        concurrency: 10,
        closeWithinMs: 0,
        idleMs: 600_000,
      });
      await queue.addBulk(many(3, "a"));
      await eventually(() => expect(worker.running).toBe(1), soon);
      await new Promise((resolve) => setTimeout(resolve, 50));
      await queue.setLimits(lifted);
      await eventually(() => expect(worker.running).toBe(3), soon);
      await worker.close();
    }
  }, 60_000);

  it("is set in bounded time, also while workers hold groups back again", async () => {
    const queue = one.queue();
    // However many groups a call lets in, the same number is held back after it.
    const run = vi.spyOn(QueueStore.prototype, "run").mockResolvedValue(2_500);
    await queue.setLimits({ groupConcurrency: 1 });
    expect(run.mock.calls.length).toBeLessThan(100);
    run.mockRestore();
  });

  it("is released when its job fails, is retried, is lost or is handed back", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    await queue.setLimits({ groupConcurrency: 1 });
    await queue.addBulk(many(6, "a"));
    const call = { worker: "w", leaseMs: 60_000, want: 5, done: [] };
    const take = async (undone: { how: string } | undefined, last?: Taken) => {
      const ended =
        undone === undefined || last === undefined
          ? []
          : [{ id: last.jobs[0] as string, fence: last.firstFence + 1, json: "{}", ...undone }];
      return store.next({ ...call, undone: ended });
    };
    let taken = await take(undefined);
    for (const how of ["dead", "1", "back", "delay 1", "hold 0"]) {
      expect(taken.jobs, how).toHaveLength(2);
      taken = await take({ how }, taken);
    }
    expect(taken.jobs).toHaveLength(2);
    await one.redis.send(["ZADD", store.keys.lease, "1", taken.jobs[0] as string]);
    await store.move(100);
    expect((await take(undefined)).jobs).toHaveLength(2);
    expect(await one.redis.send(["HGET", store.keys.usage, "aa"])).toBe("1");
  });

  it("leaves nothing behind when its rate does not matter any more", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    await queue.setLimits({ groupRate: { max: 1_000, perMs: 1_000 } });
    await queue.addBulk([...many(3, "a"), ...many(3, "b")]);
    const { seen, handler } = collector((job) => job.data);
    const worker = one.worker(queue, handler);
    await eventually(() => expect(seen).toHaveLength(6), soon);
    await worker.close();
    await eventually(async () => {
      await store.move(100);
      const { usage, timers, capped, places, groups } = store.keys;
      expect(await one.redis.send(["EXISTS", usage, timers, capped, places, groups])).toBe(0);
    }, soon);
  });
});

describe("rate limits", () => {
  it("of any number per any time let the first job run", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const call = { worker: "w", leaseMs: 60_000, want: 1, done: [], undone: [] };
    for (const perMs of [7, 1_000, 60_000]) {
      for (let max = 1; max <= 60; max++) {
        const rate = { max, perMs };
        await queue.setLimits({ rate, groupRate: rate });
        await queue.add("n", 0, { group: `${max} per ${perMs}` });
        const { jobs } = await store.next(call);
        expect(jobs, `${max} per ${perMs} ms`).toHaveLength(2);
        await one.redis.send(["HDEL", store.keys.meta, "tat"]); // the bucket is full again
      }
    }
  }, 60_000);

  it("survive a clock that is set back by an hour", async () => {
    const queue = one.queue();
    const { meta, usage } = queueKeys("ropeway:jobs", queue.name);
    const hour = 3_600_000;
    await queue.setLimits({
      rate: { max: 100, perMs: 1_000 },
      groupRate: { max: 100, perMs: 1_000 },
    });
    await one.redis.send(["HSET", meta, "tat", String(Date.now() + hour)]);
    await one.redis.send(["HSET", meta, "hold", String(Date.now() + hour), "holdms", "100"]);
    await one.redis.send(["HSET", usage, "ta", String(Date.now() + hour)]);
    await queue.addBulk([...many(3, "a"), { name: "plain" }]);
    const { seen, handler } = collector((job) => job.data ?? "plain");
    one.worker(queue, handler);
    await eventually(() => expect(seen).toHaveLength(4), soon);
  });

  it("count no token for a job that was handed back", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    await queue.setLimits({ rate: { max: 20, perMs: 3_600_000 } });
    await queue.addBulk(many(3, "a"));
    const call = { worker: "w", leaseMs: 60_000, done: [] };
    for (let i = 0; i < 5; i++) {
      const taken = await store.next({ ...call, want: 1, undone: [] });
      expect(taken.jobs).toHaveLength(2);
      const back = { id: taken.jobs[0] as string, fence: taken.firstFence + 1 };
      await store.next({ ...call, want: 0, undone: [{ ...back, how: "back", json: "" }] });
    }
  });
});
