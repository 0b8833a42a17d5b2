/** Unexpected behaviour of handlers and callers. */
import { inspect } from "node:util";
import {
  InvalidNameError,
  InvalidOptionError,
  RopewayError,
  ServerReplyError,
} from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import {
  InvalidFlowError,
  type JobContext,
  Queue,
  QueueEvents,
  SeedQueue,
  SeedWorker,
  Worker,
} from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const THEN = "then";

describe("attempts", () => {
  it("fail alone when what was thrown or returned throws as soon as it is looked at", async () => {
    const queue = one.queue();
    const trap = () => {
      throw new Error("do not look");
    };
    const hidden = (property: string) =>
      Object.defineProperty(new Error(), property, { get: trap });
    const throwing: Record<string, () => unknown> = {
      name: () => hidden("name"),
      message: () => hidden("message"),
      code: () => hidden("code"),
      prototype: () => new Proxy({}, { getPrototypeOf: trap }),
      object: () => Object.assign(new Error(), { name: Object.create(null) }),
    };
    const worker = one.worker(queue, async (job: JobContext) => {
      throw throwing[job.name]?.();
    });
    const direct = one.queue();
    one.worker(direct, {
      ...Object.fromEntries(
        Object.entries(throwing).map(([name, make]) => [
          name,
          () => {
            throw make();
          },
        ]),
      ),
      getter: () => Object.defineProperty({}, THEN, { get: trap }),
      thenable: () => ({ [THEN]: trap }),
      fine: () => "fine",
    });
    const bounds = { timeoutMs: 15_000 };
    for (const name of Object.keys(throwing)) {
      for (const target of [queue, direct]) {
        await expect(target.run(name, 0, bounds)).rejects.toThrow(/cannot be read/);
      }
    }
    await expect(direct.run("getter", 0, bounds)).rejects.toThrow("do not look");
    await expect(direct.run("thenable", 0, bounds)).rejects.toThrow("do not look");
    expect(await direct.run("fine", 0, bounds)).toBe("fine");
    expect(worker.running).toBe(0);
  }, 60_000);

  it("keep a bounded part of a long message, name and code, and of a long line of the log", async () => {
    const queue = one.queue();
    one.worker(queue, async (job: JobContext) => {
      await job.log("l".repeat(100_000));
      const error = new Error("m".repeat(100_000));
      throw Object.assign(error, { name: "n".repeat(100_000), code: "c".repeat(100_000) });
    });
    const job = await queue.add("a");
    await eventually(async () => expect(await job.view()).toMatchObject({ state: "failed" }));
    const view = await job.view();
    expect(view?.logs?.[0]).toHaveLength(4_000);
    expect(view?.failure?.message).toHaveLength(10_000);
    expect(view?.failure).toMatchObject({ name: "n".repeat(200), code: "c".repeat(200) });
  });
});

describe("lines of the log", () => {
  it("that are not strings are shown as console.log() shows them", async () => {
    const queue = one.queue();
    one.worker(queue, async (job: JobContext) => {
      for (const line of [5, Object.create(null), { a: [1] }, Symbol("s"), undefined]) {
        await job.log(line as never);
      }
    });
    const { id } = await queue.add("a", 0, { keep: { completed: true } });
    await eventually(async () => expect((await queue.get(id))?.state).toBe("completed"));
    const logs = ["5", "[Object: null prototype] {}", "{ a: [ 1 ] }", "Symbol(s)", "undefined"];
    expect((await queue.get(id))?.logs).toEqual(logs);
  });
});

describe("results", () => {
  it("of a job that was there already are kept for whoever wants to await it", async () => {
    const queue = one.queue();
    const { awaited } = queueKeys("ropeway:jobs", queue.name);
    await queue.add("a", 1, { id: "same" });
    await queue.add("a", 1, { dedupe: "kept" });
    await queue.add("a", 1, { dedupe: { key: "replaced", mode: "replace" } });
    const handles = [
      await queue.add("a", 2, { id: "same", awaited: true }),
      await queue.add("a", 2, { dedupe: "kept", awaited: true }),
      await queue.add("a", 2, { dedupe: { key: "replaced", mode: "replace" }, awaited: true }),
    ];
    expect(handles.map((job) => job.deduplicated)).toEqual(["exists", "kept", "replaced"]);
    one.worker(queue, (job: JobContext<number>) => job.data * 10);
    await eventually(async () => expect(await queue.counts()).toMatchObject({ completed: 3 }));
    const results = await Promise.all(handles.map((job) => job.result({ timeoutMs: 5_000 })));
    expect(results).toEqual([10, 10, 20]);
    await queue.add("a", 3, { id: "same", awaited: true }); // has ended: nothing to wait for
    await queue.addBulk([
      { name: "a", options: { dedupe: "b" } },
      { name: "a", options: { id: "not there", dedupe: "b" } },
      { name: "a", options: { id: "not there", awaited: true, dedupe: "b" } },
    ]);
    await eventually(async () =>
      expect(await queue.counts()).toMatchObject({ waiting: 0, active: 0 }),
    );
    expect(await one.redis.send(["EXISTS", awaited])).toBe(0);
  });

  it.each([{}, { priority: 1 }, { group: "g" }, { delayMs: 1 }])(
    "of a job that was added in the same call are kept, too: %j",
    async (options) => {
      const queue = one.queue();
      const { awaited } = queueKeys("ropeway:jobs", queue.name);
      const [, job] = await queue.addBulk([
        { name: "a", data: 1, options: { id: "same", ...options } },
        { name: "a", data: 2, options: { id: "same", awaited: true } },
      ]);
      expect(await one.redis.send(["SMEMBERS", awaited])).toEqual(["same"]);
      one.worker(queue, (job: JobContext<number>) => job.data * 10);
      await eventually(async () => expect(await queue.counts()).toMatchObject({ completed: 1 }));
      expect(await job?.result({ timeoutMs: 5_000 })).toBe(10);
    },
  );
});

describe("half of a surrogate pair", () => {
  const half = "a\ud83d";

  it("is refused in names, which are JSON for the scripts, and is data like any other", async () => {
    const queue = one.queue();
    const calls = [
      () => queue.add(half),
      () => queue.add("a", 0, { id: half }),
      () => queue.add("a", 0, { group: half }),
      () => queue.add("a", 0, { dedupe: half }),
      () => queue.add("a", 0, { backoff: { kind: "custom", name: half } }),
      () => queue.addFlow({ name: "a", children: [{ name: "b", queue: half }] }),
      () => queue.setSchedule("s", { everyMs: 1_000, name: "a", data: [{ [half]: 1 }] }),
      () => queue.setSchedule("s", { everyMs: 1_000, name: "a", data: `\\${half}` }),
      () => queue.removeDedupeKey(half),
    ];
    for (const call of calls) await expect(call(), String(call)).rejects.toThrow(RopewayError);
    expect(() => new Queue(one.redis, half)).toThrow(InvalidNameError);
    expect(await queue.schedules()).toEqual([]);
    await queue.setSchedule("s", { everyMs: 60_000, name: "a", data: "\\ud83d \u{1f600}" });
    await queue.removeSchedule("s");
    one.worker(queue, (job: JobContext) => job.data);
    expect(await queue.run("a", half, { timeoutMs: 15_000 })).toBe(half);
  });

  it("of another program leaves nothing of the jobs beside it", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const record = ";0;0;\na\n";
    const good = { id: "good", where: '{"k":["k",0,"keep",0]}', record: ';0;0;{"d":"k"}\na\n' };
    const bad = { id: "bad", where: '{"g":"\\ud83d"}', record };
    const call = { producer: "p", number: 1, jobs: [good, bad] };
    await expect(store.add(call)).rejects.toThrow(ServerReplyError);
    expect(await one.redis.send(["EXISTS", store.keys.jobs, store.keys.dedupe])).toBe(0);
    expect((await queue.add("a", 0, { dedupe: "k" })).deduplicated).toBeUndefined();
  });
});

it("a worker refuses a queue that is named twice", () => {
  expect(() => new Worker(one.redis, ["a", "b", "a"], () => 1)).toThrow(InvalidOptionError);
});

describe("wrong arguments", () => {
  const plain = [null, 5, Number.NaN, {}, [], [null], () => 1, Symbol("s"), true, { nmae: "a" }];
  const wrong = [...plain, Object.create(null)];
  // biome-ignore lint/suspicious/noExplicitAny: that is the point
  type Loose = any;

  /** The methods that must refuse everything in `wrong`. */
  const calls: Record<string, (queue: Loose, value: Loose) => unknown> = {
    get: (queue, value) => queue.get(value),
    result: (queue, value) => queue.result(value, { timeoutMs: 1 }),
    "result's signal": (queue, value) => queue.result("a", { signal: value }),
    "run's signal": (queue, value) => queue.run("a", 0, { signal: value }),
    children: (queue, value) => queue.children(value),
    cancel: (queue, value) => queue.cancel(value),
    "cancel's reason": (queue, value) => queue.cancel("a", value),
    remove: (queue, value) => queue.remove(value),
    promote: (queue, value) => queue.promote(value),
    retry: (queue, value) => queue.retry(value),
    update: (queue, value) => queue.update(value, { priority: 1 }),
    removeSchedule: (queue, value) => queue.removeSchedule(value),
    removeDedupeKey: (queue, value) => queue.removeDedupeKey(value),
    "a job of addBulk": (queue, value) => queue.addBulk([value]),
    addFlow: (queue, value) => queue.addFlow(value),
    "a child": (queue, value) => queue.addFlow({ name: "a", children: [value] }),
    "a policy": (queue, onChildFailure) => queue.addFlow({ name: "a", onChildFailure }),
    "a child's policy": (queue, onFailure) =>
      queue.addFlow({ name: "a", children: [{ name: "b", onFailure }] }),
    "search's name": (queue, value) => queue.search({ name: value }),
    "search's text": (queue, value) => queue.search({ text: value }),
    "retryAll's group": (queue, value) => queue.retryAll({ group: value }),
    setSchedule: (queue, value) => queue.setSchedule("s", value),
    "the name of QueueEvents": (_, value) => new QueueEvents(one.redis, value),
    SeedWorker: (_, value) => new SeedWorker(one.redis, value),
    "result's name": (queue, value) => queue.result("a", { what: value, timeoutMs: 1 }),
    "run's name": (queue, value) => queue.run("a", 0, { what: value, timeoutMs: 1 }),
    "SeedQueue's length": (_, value) => new SeedQueue(one.redis).length(value),
  };
  it.each(Object.entries(calls))("of %s are refused by a typed error", async (_, call) => {
    const queue = one.queue();
    for (const value of wrong) {
      await expect((async () => call(queue, value))(), inspect(value)).rejects.toThrow(
        RopewayError,
      );
    }
    expect(await queue.counts()).toMatchObject({ waiting: 0, blocked: 0 });
  });

  it("never delete or retry more than was meant", async () => {
    const queue = one.queue() as Loose;
    await queue.add("a", 0, { id: "a" });
    const calls = [
      () => queue.drain(["waiting"], 5),
      () => queue.drain(["waiting"], null),
      () => queue.drain(["waiting"], { olderThan: 5 }),
      () => queue.drain("waiting"),
      () => queue.drain({}),
      () => queue.obliterate(5),
      () => queue.obliterate({ forced: false }),
      () => queue.retryAll("a"),
      () => queue.retryAll({ nmae: "a" }),
      () => queue.search({ nmae: "a" }),
      () => queue.update("a", { attempts: 5 }),
      () => queue.update("a", null),
      () => queue.setLimits(null),
      () => queue.result("a", { timeoutMs: Number.NaN }),
      () => queue.result("a", { timeout: 5 }),
      () => queue.run("a", 0, 5),
      () => new SeedQueue(one.redis).later("q", "a", null as Loose),
      () => new SeedQueue(one.redis).later("q", "a", { delay: 5 } as Loose),
      () => queue.addBulk("a"),
      () => queue.addBulk([{ name: "a", opts: { delayMs: 5 } }]),
      () => queue.addFlow({ name: "a", children: {} }),
      () => queue.addFlow({ name: "a", options: 5 }),
      () => new Queue(one.redis, queue.name, { defaults: { attempts: 2 } }).add("a", 0, 5 as Loose),
    ];
    for (const call of calls) await expect(call(), String(call)).rejects.toThrow(RopewayError);
    expect(await queue.counts()).toMatchObject({ waiting: 1, blocked: 0 });
  });
});

describe("flows", () => {
  it("that contain themselves are refused", async () => {
    const endless = { name: "a", children: [] as unknown[] };
    endless.children.push(endless);
    await expect(one.queue().addFlow(endless as never)).rejects.toThrow(InvalidFlowError);
  });

  it("have at most 100 levels, also those that grow while they run", async () => {
    const queue = one.queue();
    let deepest = "";
    one.worker(
      queue,
      async (job: JobContext) => {
        if ((await job.children()).length > 0) return;
        deepest = job.id;
        await job.addChildren([{ name: "a" }]);
        job.waitForChildren();
      },
      { concurrency: 4 },
    );
    const root = await queue.add("a", 0, { id: "root" });
    await eventually(async () => expect(await root.view()).toMatchObject({ state: "failed" }), {
      withinMs: 60_000,
    });
    expect(deepest.split("/")).toHaveLength(100);
    expect(await queue.get(deepest)).toMatchObject({ failure: { code: "JOB_FLOW_INVALID" } });
  }, 90_000);
});
