/** What the compiler accepts and refuses. `tsc -p tsconfig.test.json` checks the types; the run is additional. */
import { InvalidArgumentError, type Schema } from "@ropeway/core";
import { describe, expect, expectTypeOf, it } from "vitest";
import {
  defineJobs,
  type FlowJob,
  InvalidDataError,
  type JobContext,
  JobNotFoundError,
  type Middleware,
  Queue,
  type QueueEvent,
  type QueueEvents,
  Worker,
} from "../src/index.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();

interface Jobs {
  welcome: { data: { to: string }; result: string };
  count: { data: undefined; result: number };
}

/** Never called: only its types matter. */
export function compiles(queue: Queue<Jobs>, events: QueueEvents<Jobs>): void {
  queue.add("welcome", { to: "ann" });
  queue.add("count");
  // @ts-expect-error a misspelt name
  queue.add("welcom", { to: "ann" });
  // @ts-expect-error wrong data
  queue.add("welcome", { to: 1 });
  // @ts-expect-error missing data
  queue.add("welcome");
  // @ts-expect-error data where there is none
  queue.add("count", { to: "ann" });
  // @ts-expect-error an option that does not exist
  queue.add("welcome", { to: "ann" }, { delay: 5 });
  // @ts-expect-error a misspelt name in bulk
  queue.addBulk([{ name: "welcom", data: { to: "ann" } }]);
  // @ts-expect-error wrong data in a flow
  queue.addFlow({ name: "welcome", data: 1, children: [] });
  // @ts-expect-error wrong data of a schedule
  void queue.setSchedule("s", { name: "welcome", everyMs: 5, data: {} });

  expectTypeOf(queue.run("welcome", { to: "ann" })).resolves.toEqualTypeOf<string>();
  expectTypeOf(queue.run("count")).resolves.toEqualTypeOf<number>();
  expectTypeOf(queue.add("count").then((job) => job.result())).resolves.toEqualTypeOf<number>();

  events.on("completed", (event) => {
    if (event.name === "count") expectTypeOf(event.result).toEqualTypeOf<number | undefined>();
    // @ts-expect-error not the name of a job
    return event.name === "welcom";
  });
  // @ts-expect-error not the name of an event
  events.on("complete", () => {});
}

/** Never called: only its types matter. */
export function handlersCompile(redis: OneRedis["redis"]): void {
  new Worker<Jobs>(redis, "q", { welcome: (job) => `to ${job.data.to}`, count: () => 1 });
  new Worker<Jobs>(redis, "q", (job) => {
    if (job.name === "welcome") {
      expectTypeOf(job.data).toEqualTypeOf<{ to: string }>();
      return job.data.to;
    }
    expectTypeOf(job.name).toEqualTypeOf<"count">();
    return 1;
  });
  new Worker<Jobs>(
    redis,
    "q",
    (jobs) => {
      expectTypeOf(jobs).toExtend<readonly JobContext[]>();
      return jobs.map((job) => (job.name === "welcome" ? job.data.to : 1));
    },
    { batch: 10 },
  );
  // @ts-expect-error a wrong result
  new Worker<Jobs>(redis, "q", { welcome: () => 5, count: () => 1 });
  // @ts-expect-error a handler is missing
  new Worker<Jobs>(redis, "q", { welcome: () => "" });
  new Worker<Jobs>(redis, "q", {
    welcome: (job) => {
      // @ts-expect-error wrong data
      return job.data.too;
    },
    count: () => 1,
  });
}

describe("without declared types", () => {
  it("data and results are unknown, never any", () => {
    expectTypeOf<QueueEvent["event"]>().toExtend<string>();
    expectTypeOf<JobContext["data"]>().toEqualTypeOf<unknown>();
    const queue = one.queue();
    const run = () => queue.run("anything", { any: 1 });
    expectTypeOf(run).returns.resolves.toEqualTypeOf<unknown>();
    new Worker(
      one.redis,
      "never started",
      (job) => {
        expectTypeOf(job.data).toEqualTypeOf<unknown>();
      },
      { autostart: false },
    );
  });
});

/** A schema that turns a numeric string into a number. */
const numeric: Schema<string, number> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) =>
      typeof value === "string" && /^\d+$/.test(value)
        ? { value: Number(value) }
        : { issues: [{ message: "expected a numeric string" }] },
  },
};

describe("defineJobs", () => {
  const jobs = defineJobs({ double: { data: numeric, result: numeric }, free: {} });

  it("gives the types of what is added, handled and returned", () => {
    const queue = new Queue(one.redis, "typed by schema", { jobs });
    const run = () => queue.run("double", "4");
    expectTypeOf(run).returns.resolves.toEqualTypeOf<number>();
    // @ts-expect-error the schema takes a string
    const wrong = () => queue.add("double", 4);
    expect(wrong).toBeTypeOf("function");
    expectTypeOf(queue.add<"free">)
      .parameter(1)
      .toEqualTypeOf<unknown>();
  });

  it("validates on add, before the handler and after it", async () => {
    const queue = one.keep(new Queue(one.redis, "validated", { jobs }));
    await expect(queue.add("double", "four")).rejects.toThrow(InvalidDataError);
    // @ts-expect-error a name that is not defined
    await expect(queue.add("triple", "4")).rejects.toMatchObject({ code: "INVALID_NAME" });
    expect(await queue.counts()).toMatchObject({ waiting: 0 });

    const seen: unknown[] = [];
    const middleware: Middleware[] = [
      (job, next) => {
        seen.push(job.data);
        return next();
      },
    ];
    one.keep(
      new Worker(
        one.redis,
        "validated",
        {
          double: (job) => {
            seen.push(job.data);
            return String(job.data * 2);
          },
          free: () => undefined,
        },
        { jobs, middleware },
      ),
    );
    expect(await queue.run("double", "21", { timeoutMs: 10_000 })).toBe(42);
    expect(seen).toEqual([21, 21]); // middleware and handler get the output of the schema

    // Another producer has no schema. The worker refuses its data without a retry.
    const foreign = one.queue({}, "validated");
    const run = foreign.run("double", "four", { attempts: 5, timeoutMs: 10_000 });
    await expect(run).rejects.toThrow(InvalidDataError);
    expect(seen).toEqual([21, 21]);
  });

  it("validates what changes a job, and the jobs of its queue in a flow", async () => {
    const queue = one.keep(new Queue(one.redis, "changed", { jobs }));
    const job = await queue.add("double", "1", { delayMs: 3_600_000 });
    await expect(job.update({ data: "one" })).rejects.toThrow(InvalidDataError);
    await expect(queue.update(job.id, { data: 1 })).rejects.toThrow(InvalidDataError);
    await expect(queue.update("nobody", { data: "1" })).rejects.toThrow(JobNotFoundError);
    expect(await job.view()).toMatchObject({ data: "1" });
    await job.update({ data: "2" });

    const flow = (child: FlowJob) => queue.addFlow({ name: "free", children: [child] });
    await expect(flow({ name: "double", data: 2 })).rejects.toThrow(InvalidDataError);
    await expect(flow({ name: "triple" })).rejects.toMatchObject({ code: "INVALID_NAME" });
    const far: FlowJob = { name: "any", queue: "elsewhere", children: [{ name: "any" }] };
    await expect(
      flow({ ...far, children: [{ name: "double", data: 2, queue: queue.name }] }),
    ).rejects.toThrow(InvalidDataError);
    expect(await queue.counts()).toMatchObject({ waiting: 0, blocked: 0 });
    await flow(far); // the jobs of another queue have that queue's types
    expect(await queue.counts()).toMatchObject({ blocked: 1 });
  });

  it("validates what a handler gives update() and addChildren()", async () => {
    const queue = one.keep(new Queue(one.redis, "updated", { jobs }));
    const seen: unknown[] = [];
    const how = { jobs, closeWithinMs: 500 };
    const double = async (job: JobContext<number, "double", string>) => {
      // @ts-expect-error it takes what add() takes, not what the handler gets
      await expect(job.update(5)).rejects.toThrow(InvalidDataError);
      await expect(job.addChildren([{ name: "double", data: 5 }])).rejects.toThrow(
        InvalidDataError,
      );
      await job.update("5");
      seen.push(job.data);
      if (seen.length === 1) throw new Error("once more");
      return "0";
    };
    one.keep(new Worker(one.redis, "updated", { double, free: () => undefined }, how));
    const run = queue.run("double", "4", { attempts: 2, backoff: 0, timeoutMs: 10_000 });
    expect(await run).toBe(0);
    expect(seen).toEqual([5, 5]);
  });

  it("validates the data and the results of a batch, each by itself", async () => {
    const queue = one.keep(new Queue(one.redis, "batch", { jobs }));
    const foreign = one.queue({}, "batch");
    const kept = { awaited: true };
    const added = [
      await queue.add("double", "1", kept),
      await queue.add("double", "2", kept),
      await foreign.add("double", "two", kept),
    ];
    const handler = (batch: readonly { data: unknown }[]) =>
      batch.map(({ data }) => (data === 1 ? "10" : "many"));
    one.keep(new Worker(one.redis, "batch", handler, { jobs, batch: 3, closeWithinMs: 500 }));
    const bounds = { timeoutMs: 10_000 };
    const [good, result, data] = await Promise.allSettled(added.map((job) => job.result(bounds)));
    expect(good).toMatchObject({ status: "fulfilled", value: 10 });
    expect(result).toMatchObject({ reason: { code: "JOB_DATA_INVALID" } });
    expect(data).toMatchObject({ reason: { code: "JOB_DATA_INVALID" } });
  });

  it("refuses what is no schema", () => {
    const wrong = { parse: () => 1 } as unknown as Schema;
    expect(() => defineJobs({ a: { data: wrong } })).toThrow(InvalidArgumentError);
    expect(() => defineJobs({ a: { result: wrong } })).toThrow(/a\.result/);
    for (const job of [null, 5, "data", { dta: numeric }]) {
      expect(() => defineJobs({ a: job as never })).toThrow(InvalidArgumentError);
    }
    for (const jobs of [null, 5, "data"]) {
      expect(() => defineJobs(jobs as never)).toThrow(InvalidArgumentError);
    }
  });
});
