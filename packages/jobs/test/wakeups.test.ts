/**
 * Workers that sleep are told at once. They would look by themselves after a few seconds, or after `idleMs`, so these
 * tests make that time longer than the test, or read what is sent.
 */
import { connect } from "@ropeway/core";
import { eventually, startProxy } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { type JobContext, type Queue, Worker } from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 20_000 };
const asleep = { idleMs: 600_000 };
const HOUR = 3_600_000;

/** What is sent on the queue's control channel while `step` runs. */
async function controlOf(queue: Queue, step: () => Promise<unknown>): Promise<string[]> {
  const { control } = queueKeys("ropeway:jobs", queue.name);
  await using subscriber = await one.redis.subscriber("test");
  const sent: string[] = [];
  await subscriber.subscribe(control, (message) => void sent.push(String(message)));
  await step();
  await one.redis.send(["PUBLISH", control, "end"]);
  await eventually(() => expect(sent.at(-1)).toBe("end"), soon);
  return sent.slice(0, -1);
}

/** Resolves when the worker blocks on the queue. */
async function untilIdle(queue: Queue, workers = 1): Promise<void> {
  const { idle } = queueKeys("ropeway:jobs", queue.name);
  await eventually(async () => expect(await one.redis.send(["ZCARD", idle])).toBe(workers), soon);
}

describe("movers", () => {
  it("are told of a job that is due before all others, and of no other", async () => {
    const queue = one.queue();
    const add = (delayMs: number) => () => queue.add("n", 0, { delayMs });
    expect(await controlOf(queue, add(HOUR))).toEqual(["due"]);
    expect(await controlOf(queue, add(2 * HOUR))).toEqual([]);
    expect(await controlOf(queue, add(HOUR / 2))).toEqual(["due"]);
  });

  it("are told when a drain leaves a parent without children", async () => {
    const queue = one.queue();
    await queue.addFlow({ name: "p", children: [{ name: "c" }] });
    expect(await controlOf(queue, () => queue.drain(["waiting"]))).toContain("due");
    expect(await queue.counts()).toMatchObject({ blocked: 0, delayed: 1 });
  });
});

describe("a worker that sleeps is woken", () => {
  it.each([{}, { priority: 1 }, { group: "g" }])(
    "for the second of two jobs that were added together: %j",
    async (options) => {
      const queue = one.queue();
      let running = 0;
      const handler = async () => {
        running += 1;
        await eventually(() => expect(running).toBe(2), soon);
      };
      for (let i = 0; i < 2; i++) one.worker(queue, handler, { ...asleep, prefetch: 0 });
      await untilIdle(queue, 2);
      await queue.addBulk([0, 1].map((data) => ({ name: "n", data, options })));
      await eventually(() => expect(running).toBe(2), soon);
    },
    40_000,
  );

  it("for the children of a job that another worker runs", async () => {
    const queue = one.queue();
    let children = 0;
    const handlers = {
      parent: async (job: JobContext) => {
        await job.addChildren([{ name: "child" }]);
        await eventually(() => expect(children).toBe(1), soon);
      },
      child: () => {
        children += 1;
      },
    };
    for (let i = 0; i < 2; i++) one.worker(queue, handlers, asleep);
    await untilIdle(queue, 2);
    await queue.add("parent");
    await eventually(() => expect(children).toBe(1), soon);
  }, 40_000);

  it("when a limit is lifted, and when its group may go on", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const { wake } = store.keys;
    const woken = () => one.redis.send(["ZRANGE", wake, "0", "-1"]);
    await queue.setLimits({ groupRate: { max: 1, perMs: HOUR } });
    expect(await woken()).toEqual(["0"]);
    await queue.addBulk([0, 1].map((data) => ({ name: "n", data, options: { group: "g" } })));
    const call = { worker: "w", leaseMs: HOUR, done: [], undone: [] };
    expect((await store.next({ ...call, want: 2 })).jobs).toHaveLength(2);
    await one.redis.send(["UNLINK", wake]);
    await one.redis.send(["ZADD", store.keys.timers, "XX", "1", "gg"]);
    await store.move(10);
    expect(await woken()).toEqual(["0"]);
  });
});

it("a worker learns of a cancel that came while its connection was away", async () => {
  const proxy = await startProxy({ host: one.server.host, port: one.server.port });
  const redis = await connect(`redis://127.0.0.1:${proxy.port}`);
  const queue = one.queue();
  const reasons: string[] = [];
  const handler = (job: JobContext) =>
    new Promise((_, reject) => {
      job.signal.addEventListener("abort", () => {
        reasons.push(String(job.signal.reason));
        reject(job.signal.reason);
      });
    });
  const worker = new Worker(redis, queue.name, handler, { leaseMs: HOUR, closeWithinMs: 500 });
  worker.on("error", () => {});
  await queue.add("n", 0, { id: "x" });
  await eventually(() => expect(worker.running).toBe(1), soon);
  proxy.refuse();
  proxy.cut();
  expect(await queue.cancel("x", "enough")).toBe("signalled");
  await proxy.heal();
  await eventually(() => expect(reasons.join()).toContain("enough"), soon);
  await worker.close();
  await redis.close();
  await proxy.close();
}, 60_000);

it("a worker calls again at once if it has read only groups at their limit", async () => {
  const queue = one.queue();
  const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
  await queue.setLimits({ groupConcurrency: 1 });
  const busy = Array.from({ length: 150 }, (_, i) => `busy ${i}`);
  await one.redis.send(["HSET", store.keys.usage, ...busy.flatMap((group) => [`a${group}`, "1"])]);
  await queue.addBulk(busy.map((group) => ({ name: "n", options: { group } })));
  await queue.add("free", 0, { id: "free", group: "g" });
  await one.redis.send(["ZADD", store.keys.groups, "XX", "9", "g"]); // its turn comes last
  const call = { worker: "w", leaseMs: HOUR, want: 1, done: [], undone: [] };
  expect(await store.next(call)).toMatchObject({ jobs: [], laterMs: 0 });
  expect((await store.next(call)).jobs[0]).toBe("free");
});
