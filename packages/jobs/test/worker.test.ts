import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import {
  type JobContext,
  JobFailedError,
  JobNotFoundError,
  RateLimitedError,
  UnrecoverableError,
} from "../src/index.ts";
import { queueKeys } from "../src/internal.ts";
import { collector, OneRedis } from "./one-redis.ts";

const one = new OneRedis();

/** A handler that runs until released. */
function gate() {
  let release: (value?: unknown) => void = () => {};
  const started: JobContext[] = [];
  const opened = new Promise((resolve) => {
    release = resolve;
  });
  return {
    started,
    release,
    handler: async (job: JobContext) => {
      started.push(job);
      await opened;
    },
  };
}

describe("attempts", () => {
  it("are made as often as asked, with the backoff in between, then the job is a dead letter", async () => {
    const queue = one.queue();
    const tries: number[] = [];
    const worker = one.worker(queue, (job: JobContext) => {
      tries.push(job.attempt);
      throw new Error(`try ${job.attempt}`);
    });
    const finals: boolean[] = [];
    worker.on("failed", (_job, _error, final) => finals.push(final));
    const job = await queue.add("a", 1, { attempts: 3, backoff: 20 });
    await eventually(async () => expect(await job.view()).toMatchObject({ state: "failed" }));
    expect(tries).toEqual([1, 2, 3]);
    expect(finals).toEqual([false, false, true]);
    const view = await job.view();
    expect(view).toMatchObject({ attempts: 3, failure: { message: "try 3" } });
    expect(view?.failure?.stack).toContain("worker.test.ts");
    expect(await queue.counts()).toMatchObject({ totals: { retried: 2, failed: 1 } });
  });

  it("wait as long as a named backoff of the worker says", async () => {
    const queue = one.queue();
    const asked: unknown[] = [];
    let runs = 0;
    one.worker(
      queue,
      () => {
        runs++;
        throw new Error("no");
      },
      {
        backoffs: {
          mine: (attempt, error) => {
            asked.push([attempt, (error as Error).message]);
            return 5;
          },
        },
      },
    );
    await queue.add("a", 1, { attempts: 3, backoff: { kind: "custom", name: "mine" } });
    await eventually(() => expect(runs).toBe(3));
    expect(asked).toEqual([
      [1, "no"],
      [2, "no"],
    ]);
  });

  it("end at once when the handler says that there is no hope", async () => {
    const queue = one.queue();
    let runs = 0;
    one.worker(queue, () => {
      runs++;
      throw new UnrecoverableError("gone for good");
    });
    const job = await queue.add("a", 1, { attempts: 5, backoff: 1 });
    await eventually(async () => expect(await job.view()).toMatchObject({ state: "failed" }));
    expect(runs).toBe(1);
  });

  it("fail with whatever was thrown, be it no Error", async () => {
    const queue = one.queue();
    const thrown: Record<string, unknown> = {
      text: "just text",
      nothing: undefined,
      object: { a: 1 },
    };
    one.worker(queue, (job: JobContext) => {
      throw thrown[job.name];
    });
    const jobs = await queue.addBulk(Object.keys(thrown).map((name) => ({ name })));
    await eventually(async () => expect(await queue.counts()).toMatchObject({ failed: 3 }));
    const failures = await Promise.all(jobs.map(async (job) => (await job.view())?.failure));
    expect(failures).toEqual([
      { name: "NonError", message: '"just text"' },
      { name: "NonError", message: "undefined" },
      { name: "NonError", message: '{"a":1}' },
    ]);
  });

  it("fail when the result has no JSON form", async () => {
    const queue = one.queue();
    one.worker(queue, () => 10n);
    const job = await queue.add("a");
    await eventually(async () => {
      expect(await job.view()).toMatchObject({ failure: { code: "JOB_DATA_INVALID" } });
    });
  });

  it("fail for a name without a handler", async () => {
    const queue = one.queue();
    one.worker(queue, { known: () => "yes" });
    const job = await queue.add("unknown");
    await eventually(async () => {
      expect(await job.view()).toMatchObject({ failure: { code: "JOB_NO_HANDLER" } });
    });
    expect(await queue.run("known", 1, { timeoutMs: 5_000 })).toBe("yes");
  });

  it("are not counted when a handler asks the whole queue to rest", async () => {
    const queue = one.queue();
    const times: number[] = [];
    one.worker(queue, (job: JobContext) => {
      times.push(performance.now());
      if (times.length === 1) throw new RateLimitedError(200);
      return job.attempt;
    });
    expect(await queue.run("a", 1, { timeoutMs: 5_000 })).toBe(1);
    expect((times[1] as number) - (times[0] as number)).toBeGreaterThanOrEqual(195);
  });
});

describe("a running job", () => {
  it("is aborted and counts as failed when its time is over, and its slot is free", async () => {
    const queue = one.queue();
    let reason: unknown;
    one.worker(queue, async (job: JobContext) => {
      if (job.name === "quick") return "done";
      job.signal.addEventListener("abort", () => {
        reason = job.signal.reason;
      });
      await new Promise(() => {}); // never
    });
    const stuck = await queue.add("stuck", 1, { timeoutMs: 50 });
    expect(await queue.run("quick", 1, { timeoutMs: 5_000 })).toBe("done");
    expect(await stuck.view()).toMatchObject({ state: "failed", failure: { code: "JOB_TIMEOUT" } });
    expect(reason).toMatchObject({ code: "JOB_TIMEOUT" });
  });

  it("has its time start anew with touch()", async () => {
    const queue = one.queue();
    one.worker(queue, async (job: JobContext) => {
      for (let i = 0; i < 6; i++) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        await job.touch();
      }
      return "made it";
    });
    expect(await queue.run("a", 1, { timeoutMs: 10_000 })).toBe("made it");
    const job = await queue.add("a", 1, { timeoutMs: 300, awaited: true });
    expect(await job.result({ timeoutMs: 10_000 })).toBe("made it");
  });

  it("is cancelled on any worker, once its handler obeys", async () => {
    const queue = one.queue();
    const worker = one.worker(queue, (job: JobContext) => {
      return new Promise((_, reject) => {
        job.signal.addEventListener("abort", () => reject(job.signal.reason));
      });
    });
    const job = await queue.add("a", 1, { attempts: 5 });
    await eventually(() => expect(worker.running).toBe(1));
    expect(await job.cancel("not needed")).toBe("signalled");
    await eventually(async () => {
      expect(await job.view()).toMatchObject({
        state: "failed",
        failure: { code: "JOB_CANCELLED", message: expect.stringContaining("not needed") },
      });
    });
  });

  it("cannot be removed; one that waits is removed by cancel", async () => {
    const queue = one.queue();
    const { handler, release, started } = gate();
    one.worker(queue, handler);
    const running = await queue.add("a");
    const waiting = await queue.add("b");
    await eventually(() => expect(started).toHaveLength(1));
    await expect(running.remove()).rejects.toThrow(/it is active/);
    expect(await waiting.cancel()).toBe("removed");
    release();
  });

  it("shows progress and log lines, who runs it and since when", async () => {
    const queue = one.queue();
    const { handler, release } = gate();
    const worker = one.worker(
      queue,
      async (job: JobContext) => {
        await job.progress({ percent: 40 });
        for (const line of ["one", "two", "three"]) await job.log(line);
        await handler(job);
      },
      { logLines: 2, name: "machine 7" },
    );
    const job = await queue.add("a", 1);
    await eventually(async () => expect((await job.view())?.logs).toEqual(["two", "three"]));
    const view = await job.view();
    expect(view).toMatchObject({ state: "active", progress: { percent: 40 }, worker: worker.id });
    expect(view?.fence).toBeGreaterThan(0);
    const [listed] = await queue.workers();
    expect(listed).toMatchObject({ id: worker.id, name: "machine 7", concurrency: 1 });
    release();
    await eventually(async () => expect(await job.view()).toBeUndefined());
    const { notes, jobs, active } = queueKeys("ropeway:jobs", queue.name);
    expect(await one.redis.send(["EXISTS", notes, jobs, active])).toBe(0);
  });
});

describe("workers that died", () => {
  it("are not listed any more after two leases", async () => {
    const queue = one.queue();
    const { workers } = queueKeys("ropeway:jobs", queue.name);
    const about = { name: "gone", concurrency: 1, leaseMs: 1_000, startedAt: 0 };
    await one.redis.send(["HSET", workers, "gone", `1000 ${JSON.stringify(about)}`]);
    expect(await queue.workers()).toEqual([]);
    expect(await one.redis.send(["EXISTS", workers])).toBe(0);
  });
});

describe("results", () => {
  it("are awaited, whether the job has ended or not", async () => {
    const queue = one.queue();
    one.worker(queue, {
      double: (job: JobContext<number>) => job.data * 2,
      fail: () => {
        throw new Error("sorry");
      },
    });
    const job = await queue.add("double", 21, { awaited: true });
    await eventually(async () => expect(await job.view()).toMatchObject({ state: "completed" }));
    expect(await job.result({ timeoutMs: 1_000 })).toBe(42);
    const failing = await queue.add("fail", 0, { awaited: true });
    await expect(failing.result({ timeoutMs: 5_000 })).rejects.toThrow(JobFailedError);
    await expect(queue.result("nobody")).rejects.toThrow(JobNotFoundError);
    const many = Array.from({ length: 100 }, (_, i) =>
      queue.run("double", i, { timeoutMs: 5_000 }),
    );
    expect(await Promise.all(many)).toEqual(many.map((_, i) => i * 2));
  });

  it("are waited for within a bound", async () => {
    const queue = one.queue();
    const job = await queue.add("nobody works here");
    await expect(job.result({ timeoutMs: 20 })).rejects.toMatchObject({ code: "TIMEOUT" });
    const abort = new AbortController();
    const waiting = job.result({ signal: abort.signal });
    abort.abort();
    await expect(waiting).rejects.toMatchObject({ code: "ABORTED" });
  });
});

describe("batches", () => {
  it("hand several jobs to one call, each with its own outcome", async () => {
    const queue = one.queue();
    const sizes: number[] = [];
    await queue.addBulk(
      Array.from({ length: 25 }, (_, i) => ({
        name: "n",
        data: i,
        options: { id: `${i}`, keep: { completed: true } },
      })),
    );
    one.worker(
      queue,
      (jobs: readonly JobContext<number>[]) => {
        sizes.push(jobs.length);
        for (const job of jobs) if (job.data === 13) job.fail(new Error("unlucky"));
        return jobs.map((job) => job.data * 10);
      },
      { batch: 10 },
    );
    await eventually(async () => {
      expect(await queue.counts()).toMatchObject({ completed: 24, failed: 1 });
    });
    expect(Math.max(...sizes)).toBe(10);
    expect(await queue.get("7")).toMatchObject({ result: 70 });
    expect(await queue.get("13")).toMatchObject({ failure: { message: "unlucky" } });
  });
});

describe("close", () => {
  it("hands back what was fetched ahead, in order, and waits for what runs", async () => {
    const queue = one.queue();
    const quick = one.worker(queue, () => {}, { concurrency: 5 });
    await queue.addBulk(Array.from({ length: 200 }, () => ({ name: "warm up" })));
    await eventually(async () => expect((await queue.counts()).totals.completed).toBe(200));
    // The worker now estimates that jobs are short and fetches ahead.
    const { handler, release, started } = gate();
    await quick.close();
    const worker = one.worker(
      queue,
      (job: JobContext) => (job.name === "long" ? handler(job) : undefined),
      {
        closeWithinMs: 5_000,
      },
    );
    await queue.addBulk([
      ...Array.from({ length: 100 }, () => ({ name: "warm up" })),
      ...Array.from({ length: 20 }, (_, i) => ({ name: "long", data: i })),
    ]);
    await eventually(() => expect(started).toHaveLength(1));
    const closed = worker.close();
    // The running job ends only after the others were handed back. Until then it keeps its slot.
    await eventually(async () =>
      expect(await queue.counts()).toMatchObject({ active: 1, waiting: 19 }),
    );
    release();
    await closed;
    expect(await queue.counts()).toMatchObject({
      active: 0,
      totals: { completed: 301, stalled: 0 },
    });
    const { seen, handler: next } = collector((job) => job.data);
    one.worker(queue, next);
    await eventually(() => expect(seen).toEqual(Array.from({ length: 19 }, (_, i) => i + 1)));
  });

  it("gives up on a handler that never ends and lets its lease run out", async () => {
    const queue = one.queue();
    const { handler, started } = gate();
    const worker = one.worker(queue, handler, { closeWithinMs: 50, leaseMs: 300 });
    const job = await queue.add("a");
    await eventually(() => expect(started).toHaveLength(1));
    await worker.close();
    expect(started[0]?.signal.aborted).toBe(true);
    const { seen, handler: other } = collector((next) => next.id);
    one.worker(queue, other, { leaseMs: 300 });
    await eventually(() => expect(seen).toEqual([job.id]));
    expect(await queue.counts()).toMatchObject({ totals: { stalled: 1 } });
  });
});

describe("events", () => {
  it("tell a listener everything, and nobody writes them when nobody listens", async () => {
    const queue = one.queue();
    const { events: key } = queueKeys("ropeway:jobs", queue.name);
    one.worker(queue, async (job: JobContext) => {
      await job.progress(50);
      await job.log("half");
      if (job.name === "bad") throw new Error("bad");
      return "good";
    });
    await queue.run("good", 0, { timeoutMs: 5_000 });
    expect(await one.redis.send(["EXISTS", key])).toBe(0);
    const events = await queue.events();
    const seen: string[] = [];
    events.on("event", (event) => {
      const { result, error, value, line } = { ...event } as Record<string, unknown>;
      const message = (error as Error | undefined)?.message;
      const what = JSON.stringify(result ?? message ?? value ?? line ?? null);
      seen.push([event.event, event.id, what].join(" "));
    });
    await queue.add("good", 0, { id: "g" });
    await eventually(() => expect(seen).toHaveLength(5));
    await queue.add("bad", 0, { id: "b", attempts: 2, backoff: 1 });
    await eventually(() => expect(seen.filter((e) => e.startsWith("failed"))).toHaveLength(1));
    const worker = (await queue.workers())[0]?.id;
    expect(worker).toBeDefined();
    expect(seen.slice(0, 5)).toEqual([
      "added g null",
      "active g null",
      "progress g 50",
      'log g "half"',
      'completed g "good"',
    ]);
    expect(seen.slice(5).map((e) => e.split(" ")[0])).toEqual([
      "added",
      "active",
      "progress",
      "log",
      "retrying",
      "active",
      "progress",
      "log",
      "failed",
    ]);
  });
});
