import { InvalidArgumentError, InvalidOptionError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import {
  type JobContext,
  JobFailedError,
  JobNotFoundError,
  JobStateError,
  Queue,
  QueueActiveError,
  RateLimitedError,
} from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 15_000 };
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe("retryAll", () => {
  it("ends while jobs keep failing: it retries those that had failed when it was called", async () => {
    const queue = one.queue();
    await queue.addBulk(Array.from({ length: 1_200 }, (_, i) => ({ name: "n", data: i })));
    one.worker(
      queue,
      () => {
        throw new Error("again");
      },
      { concurrency: 50 },
    );
    await eventually(
      async () => expect(await queue.counts()).toMatchObject({ failed: 1_200 }),
      soon,
    );
    expect(await queue.retryAll()).toBe(1_200);
    await eventually(async () => {
      expect((await queue.counts()).totals.failed).toBe(2_400);
    }, soon);
  });

  it("takes only jobs that match", async () => {
    const queue = one.queue();
    await queue.addBulk(Array.from({ length: 20 }, (_, i) => ({ name: i % 2 ? "odd" : "even" })));
    const worker = one.worker(queue, () => Promise.reject(new Error("no")));
    await eventually(async () => expect(await queue.counts()).toMatchObject({ failed: 20 }), soon);
    await worker.close();
    expect(await queue.retryAll({ name: "odd" })).toBe(10);
    expect(await queue.counts()).toMatchObject({ failed: 10 });
  });
});

describe("drain", () => {
  it("spares waiting jobs that are younger than asked for, wherever they wait, in their order", async () => {
    const queue = one.queue();
    const { jobs } = queueKeys("ropeway:jobs", queue.name);
    const options = [{}, { priority: 3 }, { group: "g" }, { delayMs: 60_000 }];
    for (let i = 0; i < 40; i++) {
      const option = options[i % 4];
      await queue.add("n", i, { id: `j${i}`, ...option });
      if (i % 3 === 0) {
        const record = await one.redis.send<string>(["HGET", jobs, `j${i}`]);
        await one.redis.send(["HSET", jobs, `j${i}`, record.replace(/^\d+/, "1000")]); // old
      }
    }
    expect(await queue.drain(["waiting", "delayed"], { olderThanMs: 60_000 })).toBe(14);
    const young = Array.from({ length: 40 }, (_, i) => i).filter((i) => i % 3 !== 0);
    const left = (await queue.search({ limit: 100 })).items.map((job) => Number(job.data));
    expect([...left].sort((a, b) => a - b)).toEqual(young);
    const plain = left.filter((i) => i % 4 === 0);
    expect(plain).toEqual([...plain].sort((a, b) => a - b));
    expect(await queue.drain()).toBe(young.length);
  });

  it("ends a page when its jobs are large", async () => {
    const queue = one.queue();
    const data = "x".repeat(1_500_000);
    for (let i = 0; i < 7; i++) await queue.add("n", data, { id: `j${i}` });
    const pages: string[][] = [];
    let cursor: string | undefined;
    do {
      const page = await queue.search({ limit: 100, maxBytes: 1, cursor });
      pages.push(page.items.map(({ id }) => id));
      cursor = page.cursor;
    } while (cursor !== undefined);
    expect(pages.flat()).toEqual(Array.from({ length: 7 }, (_, i) => `j${i}`));
    expect(pages[0]).toHaveLength(3); // 4 MiB and a last job
    expect((await queue.search({ limit: 100 })).items).toHaveLength(7);
    await expect(queue.search({ maxBytes: 0 })).rejects.toThrow("maxBytes");
  });

  it("refuses states that do not exist and changes nothing", async () => {
    const queue = one.queue();
    await queue.add("n");
    for (const state of ["active", "typo", "", undefined]) {
      await expect(queue.drain([state as "waiting"])).rejects.toThrow(InvalidArgumentError);
    }
    for (const olderThanMs of [-1, Number.NaN, 1e21]) {
      await expect(queue.drain(["waiting"], { olderThanMs })).rejects.toThrow(InvalidArgumentError);
    }
    expect(await queue.counts()).toMatchObject({ waiting: 1 });
  });

  it("ends while jobs are being added", async () => {
    const queue = one.queue();
    await queue.addBulk(Array.from({ length: 2_000 }, () => ({ name: "n" })));
    let adding = true;
    const producer = (async () => {
      while (adding) await queue.addBulk(Array.from({ length: 500 }, () => ({ name: "n" })));
    })();
    const dropped = await queue.drain();
    adding = false;
    await producer;
    expect(dropped).toBeGreaterThanOrEqual(2_000);
    await queue.drain();
  });
});

describe("update", () => {
  it("changes data, priority and delay of a job that has not started, and of no other", async () => {
    const queue = one.queue();
    await queue.addBulk([
      { name: "n", data: "a", options: { id: "a" } },
      { name: "n", data: "b", options: { id: "b", priority: 5 } },
      { name: "n", data: "c", options: { id: "c", group: "g" } },
      { name: "n", data: "d", options: { id: "d", delayMs: 60_000 } },
    ]);
    await queue.update("b", { priority: -1, data: "B" });
    await queue.update("c", { priority: -1 });
    await queue.update("a", { delayMs: 60_000 });
    expect(await queue.get("a")).toMatchObject({ state: "delayed", data: "a" });
    await queue.update("d", { delayMs: 0 });
    await queue.update("a", { data: undefined, delayMs: 0 });
    await expect(queue.update("x", { data: 1 })).rejects.toThrow(JobNotFoundError);
    await expect(queue.update("a", { priority: 1e9 })).rejects.toThrow(InvalidOptionError);
    const typo = { prio: 1 } as { priority?: number };
    await expect(queue.update("a", typo)).rejects.toThrow(InvalidOptionError);
    const seen: unknown[] = [];
    one.worker(queue, (job: JobContext) => void seen.push(job.data ?? "nothing"));
    await eventually(() => expect(seen).toHaveLength(4), soon);
    expect(seen[0]).toBe("B");
    expect([...seen].sort()).toEqual(["B", "c", "d", "nothing"]);
    await expect(queue.update("a", { data: 1 })).rejects.toThrow(JobNotFoundError);
  });

  it("keeps the place of a job whose priority stays, and gives a parent no delay", async () => {
    const queue = one.queue();
    for (const id of ["a", "b"]) await queue.add("n", 0, { id, priority: 5 });
    await queue.update("a", { priority: 5, data: 1 });
    const waiting = (await queue.search({ state: "waiting" })).items;
    expect(waiting.map(({ id, data }) => [id, data])).toEqual([
      ["a", 1],
      ["b", 0],
    ]);
    await queue.addFlow({ name: "p", options: { id: "p" }, children: [{ name: "c" }] });
    await expect(queue.update("p", { data: 1, delayMs: 5 })).rejects.toThrow(JobStateError);
    expect((await queue.get("p"))?.data).toBeUndefined();
  });

  it("of a running job is refused; its handler may", async () => {
    const queue = one.queue();
    const seen: unknown[] = [];
    let go: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      go = resolve;
    });
    const worker = one.worker(queue, async (job: JobContext<{ step: number }>) => {
      seen.push(job.data.step);
      if (job.data.step === 1) {
        await gate;
        await job.update({ step: 2 });
        throw new Error("after the first step");
      }
    });
    const job = await queue.add("n", { step: 1 }, { attempts: 2, backoff: 1 });
    await eventually(() => expect(worker.running).toBe(1), soon);
    await expect(job.update({ data: { step: 7 } })).rejects.toThrow(JobStateError);
    go();
    await eventually(() => expect(seen).toEqual([1, 2]), soon);
  });
});

describe("a handler", () => {
  it("delays its job without using up an attempt", async () => {
    const queue = one.queue();
    const seen: number[] = [];
    one.worker(queue, (job: JobContext) => {
      seen.push(job.attempt);
      if (seen.length < 3) return job.delay(20);
      return "done";
    });
    expect(await queue.run("n", 1, { timeoutMs: 10_000 })).toBe("done");
    expect(seen).toEqual([1, 1, 1]);
    const bad = await queue.add("n", 1);
    expect(bad.deduplicated).toBeUndefined();
  });

  it("that delays by something that is no duration fails", async () => {
    const queue = one.queue();
    one.worker(queue, (job: JobContext) => job.delay(Number.NaN));
    await expect(queue.run("n", 1, { timeoutMs: 10_000 })).rejects.toThrow(InvalidArgumentError);
  });

  it("cannot stop the worker with a rate limit that is no duration", async () => {
    const queue = one.queue();
    for (const ms of [Number.NaN, -1, 1e21, Number.POSITIVE_INFINITY]) {
      expect(() => new RateLimitedError(ms)).toThrow(InvalidArgumentError);
    }
    const worker = one.worker(queue, (job: JobContext) => {
      if (job.name === "bad") throw new RateLimitedError(1e21);
      return "fine";
    });
    const bad = queue.run("bad", 1, { timeoutMs: 10_000 });
    await expect(bad).rejects.toThrow(InvalidArgumentError);
    expect(await queue.run("good", 1, { timeoutMs: 10_000 })).toBe("fine");
    await worker.close();
  });

  it("whose listeners, backoff and middleware throw is run to its end", async () => {
    const queue = one.queue();
    const errors: string[] = [];
    let runs = 0;
    const worker = one.worker(
      queue,
      () => {
        runs++;
        throw new Error("handler");
      },
      {
        backoffs: {
          broken: () => {
            throw new Error("backoff");
          },
        },
        middleware: [(_job, next) => next(), (_job, next) => next()],
      },
    );
    for (const event of ["active", "failed", "error"] as const) {
      worker.on(event, (...args: unknown[]) => {
        if (event === "error") errors.push((args[0] as Error).message);
        throw new Error(`listener of ${event}`);
      });
    }
    const backoff = { kind: "custom", name: "broken", delayMs: 1 } as const;
    const job = await queue.add("n", 1, { attempts: 2, backoff, awaited: true });
    await expect(job.result({ timeoutMs: 10_000 })).rejects.toThrow(JobFailedError);
    expect(runs).toBe(2);
    await eventually(() => {
      expect(errors).toEqual(expect.arrayContaining(["backoff", "listener of failed"]));
    }, soon);
  });

  it("is told the stack of every attempt in the job's view", async () => {
    const queue = one.queue();
    one.worker(queue, (job: JobContext) => Promise.reject(new Error(`try ${job.attempt}`)));
    const job = await queue.add("n", 1, { attempts: 3, backoff: 1 });
    await eventually(async () => expect(await job.view()).toMatchObject({ state: "failed" }), soon);
    const view = await job.view();
    expect(view?.failures?.map((failure) => failure.message)).toEqual(["try 1", "try 2", "try 3"]);
    expect(view?.failures?.every((failure) => failure.stack?.includes("admin.test"))).toBe(true);
  });
});

describe("a worker", () => {
  it("can be paused and resumed by itself", async () => {
    const queue = one.queue();
    let runs = 0;
    const worker = one.worker(queue, () => void runs++, { idleMs: 200 });
    await queue.run("n", 1, { timeoutMs: 10_000 });
    await worker.pause();
    expect(worker.state).toBe("paused");
    await queue.addBulk([{ name: "n" }, { name: "n" }]);
    await pause(400);
    expect(runs).toBe(1);
    expect(await queue.counts()).toMatchObject({ waiting: 2, active: 0 });
    await worker.resume();
    await eventually(() => expect(runs).toBe(3), soon);
  });

  it("emits completed only when Redis has confirmed it", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const seen: unknown[] = [];
    const worker = one.worker(queue, () => "done");
    worker.on("completed", async (job) => {
      const token = await one.redis.send(["HGET", store.keys.active, job.id]);
      seen.push(token);
    });
    await queue.add("n", 1);
    await eventually(() => expect(seen).toEqual([null]), soon);
  });

  it("is named as the worker of a job that was handed over to it", async () => {
    const queue = one.queue();
    const { idle } = queueKeys("ropeway:jobs", queue.name);
    const worker = one.worker(queue, () => new Promise(() => {}), { closeWithinMs: 0 });
    await eventually(async () => expect(await one.redis.send(["ZCARD", idle])).toBe(1), soon);
    const job = await queue.add("n", 1);
    await eventually(async () => {
      expect(await job.view()).toMatchObject({ state: "active", worker: worker.id });
    }, soon);
  });
});

describe("obliterate", () => {
  it("deletes everything, and running jobs only if forced", async () => {
    const queue = one.queue();
    await queue.addBulk([{ name: "a" }, { name: "b", options: { group: "g" } }]);
    await queue.setSchedule("s", { name: "a", everyMs: 60_000 });
    const worker = one.worker(queue, () => new Promise(() => {}), { closeWithinMs: 0 });
    await eventually(() => expect(worker.running).toBe(1), soon);
    await expect(queue.obliterate()).rejects.toThrow(QueueActiveError);
    await worker.close();
    expect(await Queue.list(one.redis)).toContain(queue.name);
    expect(await queue.exists()).toBe(true);
    expect(await queue.obliterate({ force: true })).toBe(2);
    expect(await queue.exists()).toBe(false);
    expect(await one.server.command("KEYS", `*{${queue.name}}*`)).toEqual([]);
    await queue.add("a"); // the queue is used again
    await eventually(async () => expect(await queue.exists()).toBe(true), soon);
  });
});

describe("rates", () => {
  it("say what ended in each minute", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    await store.move(10);
    const worker = one.worker(queue, (job: JobContext) => {
      if (job.name === "bad") throw new Error("bad");
    });
    await queue.addBulk([{ name: "good" }, { name: "good" }, { name: "bad" }]);
    await eventually(async () => {
      expect((await queue.counts()).totals).toMatchObject({ completed: 2, failed: 1 });
    }, soon);
    await worker.close();
    await queue.add("left");
    await one.redis.send(["HSET", store.keys.meta, "minute", "1"]); // the minute is over
    await store.move(10);
    const rates = await queue.rates(1);
    expect(rates).toHaveLength(1);
    expect(rates[0]).toMatchObject({ completed: 2, failed: 1, waiting: 1, active: 0 });
    await expect(queue.rates(0)).rejects.toThrow(InvalidArgumentError);
  });
});
