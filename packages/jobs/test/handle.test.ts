/** Features without a test file of their own: middleware, a day of rates, and the handle on a job. */
import { InvalidOptionError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import type { JobContext, Middleware } from "../src/index.ts";
import { JobStateError } from "../src/index.ts";
import { QueueStore } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 20_000 };
const bounds = { timeoutMs: 20_000 };

describe("middleware", () => {
  it("is refused for batch handlers, which it could not be called for", () => {
    const queue = one.queue();
    const middleware: Middleware[] = [(_job, next) => next()];
    expect(() => one.worker(queue, () => {}, { batch: 2, middleware })).toThrow(InvalidOptionError);
  });

  it("runs in its order around the handler, and may change or replace what it returns", async () => {
    const queue = one.queue();
    const steps: string[] = [];
    one.worker(
      queue,
      (job: JobContext) => {
        steps.push(`handler ${job.name}`);
        return 1;
      },
      {
        middleware: [
          async (job, next) => {
            steps.push(`outer ${job.name}`);
            const result = await next();
            steps.push("outer ends");
            return [result];
          },
          (job, next) => (job.name === "cached" ? "known" : next()),
        ],
      },
    );
    expect(await queue.run("plain", 0, bounds)).toEqual([1]);
    expect(await queue.run("cached", 0, bounds)).toEqual(["known"]);
    const plain = ["outer plain", "handler plain", "outer ends"];
    expect(steps).toEqual([...plain, "outer cached", "outer ends"]);
  });

  it("that throws, at once or later, fails the attempt and not the worker", async () => {
    const queue = one.queue();
    const runs: number[] = [];
    one.worker(queue, (job: JobContext) => void runs.push(job.attempt), {
      middleware: [
        (job, next) => {
          if (job.attempt === 1) throw new Error("at once");
          return next();
        },
        async (job, next) => {
          await next();
          if (job.attempt === 2) throw new Error("later");
        },
      ],
    });
    const options = { attempts: 3, backoff: 1, keep: { completed: true } };
    const job = await queue.add("n", 0, options);
    await eventually(async () => {
      expect(await job.view()).toMatchObject({ state: "completed" });
    }, soon);
    const failures = (await job.view())?.failures?.map(({ message }) => message);
    expect(failures).toEqual(["at once", "later"]);
    expect(runs).toEqual([2, 3]);
  });
});

describe("rates", () => {
  it("are kept for a day, a line per minute", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const { history, meta } = store.keys;
    const old = Array.from({ length: 2_000 }, (_, i) => `${i * 60_000} ${i} 0 0 0 0 0 0`);
    await one.redis.send(["RPUSH", history, ...old]);
    await one.redis.send(["HSET", meta, "minute", "1", "completed", "2010"]);
    await store.move(10);
    await store.move(10); // in the same minute: no other line
    expect(await one.redis.send(["LLEN", history])).toBe(1_440);
    const rates = await queue.rates(1_440);
    expect(rates).toHaveLength(1_439); // each line is compared with the previous one
    expect(rates.at(-1)).toMatchObject({ completed: 11 });
    expect(rates.at(-2)).toMatchObject({ completed: 1, at: 1_998 * 60_000 });
  });
});

describe("the handle on a job", () => {
  it("shows, changes, promotes, retries, awaits, cancels and removes it", async () => {
    const queue = one.queue();
    const keep = { completed: true, failed: true };
    const job = await queue.add("n", { a: 1 }, { delayMs: 60_000, keep, awaited: true });
    await job.update({ data: { a: 2 }, priority: 3 });
    expect(await job.view()).toMatchObject({ state: "delayed", data: { a: 2 }, priority: 3 });
    let bad = true;
    one.worker(queue, (running: JobContext) => {
      if (bad) throw new Error("bad");
      return running.data;
    });
    await job.promote();
    await expect(job.result(bounds)).rejects.toThrow("bad");
    bad = false;
    await job.retry();
    await eventually(async () => {
      expect(await job.view()).toMatchObject({ state: "completed" });
    }, soon);
    expect(await job.result(bounds)).toEqual({ a: 2 });
    expect(await job.children()).toEqual([]);
    await expect(job.promote()).rejects.toThrow(JobStateError);
    await expect(job.cancel()).rejects.toThrow(JobStateError);
    await job.remove();
    expect(await job.view()).toBeUndefined();
    const other = await queue.add("n", 1, { delayMs: 60_000 });
    expect(await other.cancel("enough")).toBe("removed");
    expect(await queue.job(other.id, "n").view()).toBeUndefined();
  });
});
