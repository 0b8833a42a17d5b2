import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import type { JobContext } from "../src/index.ts";
import { queueKeys } from "../src/internal.ts";
import { collector, OneRedis } from "./one-redis.ts";

const one = new OneRedis();
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
    // Nothing ends, so the tokens in `active` say when each job was taken.
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
