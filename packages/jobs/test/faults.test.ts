import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@ropeway/core";
import { eventually, type Script, spawnScript, startProxy } from "@ropeway/testkit";
import { afterEach, describe, expect, it, vi } from "vitest";
import { chaosKill, killLines } from "../chaos/kill.ts";
import { Queue, QueueEvents, Worker } from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { collector, OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 30_000 };
vi.setConfig({ testTimeout: 120_000 }); // processes start slowly on a busy machine
const FIXTURE = new URL("./worker.fixture.ts", import.meta.url);
const scripts: Script[] = [];

afterEach(async () => {
  await Promise.all(scripts.splice(0).map((script) => script.close()));
});

async function spawn(queue: Queue, options: object = {}): Promise<Script> {
  const script = await spawnScript(FIXTURE, {
    args: [one.server.url, queue.name, JSON.stringify(options)],
  });
  scripts.push(script);
  await script.waitForLine(/^ready/);
  return script;
}

const ranOf = (queue: Queue) =>
  one.redis.send<readonly string[]>(["LRANGE", `ran:${queue.name}`, "0", "-1"]);

describe("kill -9", () => {
  it("of workers and of Redis loses no job, and only lost leases make a job run twice", async () => {
    const report = await chaosKill({
      jobs: 4_000,
      workers: 2,
      killEveryMs: 300,
      restarts: 1,
      jobMs: 10,
      leaseMs: 600,
      withinMs: 150_000,
      seed: 7,
    });
    expect(killLines(report).filter((line) => !line.endsWith(" OK"))).toEqual([]);
  }, 180_000);

  it("of a worker gives its job to another when the lease runs out", async () => {
    const queue = one.queue();
    const first = await spawn(queue, { leaseMs: 400 });
    const job = await queue.add("wait", 60_000);
    await eventually(async () => expect(await ranOf(queue)).toHaveLength(1), soon);
    await first.kill9();
    const { seen, handler } = collector((next) => next.id);
    one.worker(queue, handler, { leaseMs: 400 });
    await eventually(() => expect(seen).toEqual([job.id]), soon);
  });

  it("by the job itself, every time, ends in the dead letters", async () => {
    const queue = one.queue();
    const job = await queue.add("die");
    for (let i = 0; i < 2; i++) {
      const victim = await spawn(queue, { leaseMs: 200, maxStalls: 1 });
      await victim.exited;
    }
    await spawn(queue, { leaseMs: 200, maxStalls: 1 });
    await eventually(async () => {
      expect(await job.view()).toMatchObject({ state: "failed", failure: { code: "JOB_STALLED" } });
    }, soon);
    expect(await ranOf(queue)).toHaveLength(2);
  });
});

describe("a worker that stands still", () => {
  it("because its handler blocks the loop past the lease has its completion refused", async () => {
    const queue = one.queue();
    const slow = await spawn(queue, { leaseMs: 300 });
    const job = await queue.add("block", 1_500);
    await eventually(async () => expect(await ranOf(queue)).toHaveLength(1), soon);
    const { seen, handler } = collector((next) => next.id);
    one.worker(queue, handler, { leaseMs: 300 });
    await eventually(() => expect(seen).toEqual([job.id]), soon);
    await slow.waitForLine(new RegExp(`^lost ${job.id}`));
    expect(await queue.counts()).toMatchObject({ active: 0, totals: { completed: 1, stalled: 1 } });
  });

  it("because it was stopped (SIGSTOP) has its completion refused by the fence", async () => {
    const queue = one.queue();
    const slow = await spawn(queue, { leaseMs: 300 });
    const job = await queue.add("wait", 400);
    await eventually(async () => expect(await ranOf(queue)).toHaveLength(1), soon);
    slow.pause();
    const { seen, handler } = collector((next) => next.id);
    one.worker(queue, handler, { leaseMs: 300 });
    await eventually(() => expect(seen).toEqual([job.id]), soon);
    slow.resume();
    await slow.waitForLine(new RegExp(`^lost ${job.id}`));
    expect(await queue.counts()).toMatchObject({ active: 0, totals: { completed: 1 } });
  });

  it("cannot complete, fail or note anything with an old token", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const job = await queue.add("a", 1);
    const take = (worker: string) =>
      store.next({ worker, leaseMs: 60_000, want: 1, done: [], undone: [] });
    const old = await take("old");
    const fence = old.firstFence + 1;
    const held = [{ id: job.id, fence }];
    const sign = { worker: "old", description: "{}", held };
    await store.renew({ ...sign, leaseMs: -1 });
    await store.move(10);
    const fresh = await take("fresh");
    expect(fresh.firstFence).toBeGreaterThan(old.firstFence);
    const ended = [{ id: job.id, fence, how: "", json: "1" }];
    const late = { worker: "old", leaseMs: 60_000, want: 0 };
    expect((await store.next({ ...late, done: ended, undone: [] })).refused).toEqual([job.id]);
    const dead = [{ ...ended[0], how: "dead" } as (typeof ended)[0]];
    expect((await store.next({ ...late, done: [], undone: dead })).refused).toEqual([job.id]);
    expect(await store.note({ id: job.id, fence }, { kind: "log", value: "late", lines: 10 })).toBe(
      false,
    );
    expect((await store.renew({ ...sign, leaseMs: 1_000 })).lost).toEqual([job.id]);
    expect(await queue.get(job.id)).toMatchObject({ state: "active", worker: "fresh" });
  });
});

describe("a job handed over to an idle worker", () => {
  it("starts without a lane in between, and ends like any other", async () => {
    const queue = one.queue();
    const { idle, wait } = queueKeys("ropeway:jobs", queue.name);
    const { seen, handler } = collector((job) => job.data);
    one.worker(queue, handler);
    for (let i = 0; i < 5; i++) {
      await eventually(async () => expect(await one.redis.send(["ZCARD", idle])).toBe(1), soon);
      await queue.add("n", i);
      expect(await one.redis.send(["EXISTS", wait])).toBe(0);
      await eventually(() => expect(seen).toHaveLength(i + 1), soon);
    }
    expect(seen).toEqual([0, 1, 2, 3, 4]);
    await eventually(async () =>
      expect(await queue.counts()).toMatchObject({ active: 0, totals: { completed: 5 } }),
    );
  });

  it("comes back unharmed when nobody is there to take it", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const { idle, wake } = store.keys;
    await one.redis.send(["ZADD", idle, "9999999999999", "a worker that died"]);
    const job = await queue.add("n", 1);
    const view = await job.view();
    expect(view).toMatchObject({ state: "active", worker: "handover" });
    const [member] = await one.redis.send<readonly string[]>(["ZRANGE", wake, "0", "-1"]);
    const fence = Number.parseInt(String(member), 10);
    await one.redis.send(["ZADD", store.keys.lease, "0", job.id]); // its short lease expires
    expect(fence).toBe(view?.fence);
    await store.move(10);
    expect(await job.view()).toMatchObject({ state: "waiting", stalls: 0 });
    expect(await one.redis.send(["ZRANGE", wake, "0", "-1"])).toEqual(["0"]);
    const { seen, handler } = collector((next) => next.id);
    one.worker(queue, handler);
    await eventually(() => expect(seen).toEqual([job.id]), soon);
  });

  it("is the only one for this wait of the worker, and there is none after the wait", async () => {
    const queue = one.queue();
    const { idle } = queueKeys("ropeway:jobs", queue.name);
    await one.redis.send(["ZADD", idle, "1", "a worker that died while it waited"]);
    await queue.add("n", 1);
    expect(await queue.counts()).toMatchObject({ waiting: 1, active: 0 });
    await queue.drain();
    await one.redis.send(["ZADD", idle, "9999999999999", "idle"]);
    await queue.add("n", 2);
    await queue.add("n", 3);
    expect(await queue.counts()).toMatchObject({ waiting: 1, active: 1 });
  });

  it("has a larger fence than all jobs of a queue of this name that was deleted", async () => {
    const queue = one.queue();
    const { idle } = queueKeys("ropeway:jobs", queue.name);
    const fences: number[] = [];
    for (let life = 0; life < 2; life++) {
      await one.redis.send(["ZADD", idle, "9999999999999", "idle"]);
      const view = await (await queue.add("n", 1, { id: "same" })).view();
      expect(view).toMatchObject({ worker: "handover" });
      fences.push(Number(view?.fence));
      await queue.obliterate({ force: true });
    }
    expect(fences[1]).toBeGreaterThan(fences[0] as number);
  });

  it("is an event once a worker has it, if somebody listens by then", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    await one.redis.send(["ZADD", store.keys.idle, "9999999999999", "idle"]);
    const job = await queue.add("n", 1);
    const fence = Number((await job.view())?.fence);
    const events = await queue.events();
    const seen: unknown[] = [];
    events.on("active", ({ id, worker }) => void seen.push([id, worker]));
    const held = [{ id: job.id, fence }];
    await store.renew({ worker: "w", leaseMs: 60_000, description: "{}", held });
    await eventually(() => expect(seen).toEqual([[job.id, "w"]]), soon);
    expect(await job.view()).toMatchObject({ state: "active", worker: "w" });
  });

  it("is not handed over past a pause, a limit or a job that waits", async () => {
    const queue = one.queue();
    const { idle } = queueKeys("ropeway:jobs", queue.name);
    await one.redis.send(["ZADD", idle, "9999999999999", "idle"]);
    await queue.pause();
    await queue.add("n", 1);
    await queue.resume();
    await queue.add("n", 2);
    expect(await queue.counts()).toMatchObject({ waiting: 2, active: 0 });
    await queue.drain();
    await queue.setLimits({ rate: { max: 1, perMs: 1_000 } });
    await queue.add("n", 3);
    expect(await queue.counts()).toMatchObject({ waiting: 1, active: 0 });
  });
});

describe("the network", () => {
  it("may be cut at any moment while jobs are added and run", async () => {
    const proxy = await startProxy({ host: one.server.host, port: one.server.port });
    const redis = await connect(`redis://127.0.0.1:${proxy.port}`, { offlineWaitMs: 10_000 });
    const queue = new Queue(redis, `cut ${Math.random()}`);
    const runs = new Map<number, number>();
    const worker = new Worker(
      redis,
      queue.name,
      (job) => void runs.set(Number(job.data), (runs.get(Number(job.data)) ?? 0) + 1),
      { concurrency: 10, leaseMs: 500, idleMs: 300 },
    );
    const total = 600;
    const adding = (async () => {
      for (let i = 0; i < total; i += 20) {
        await Promise.all(Array.from({ length: 20 }, (_, j) => queue.add("n", i + j)));
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    })();
    for (let i = 0; i < 3; i++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      proxy.cut();
    }
    await adding;
    await eventually(async () => expect(runs.size).toBe(total), { withinMs: 15_000 });
    await eventually(async () => {
      expect(await queue.counts()).toMatchObject({ waiting: 0, active: 0, delayed: 0 });
    }, soon);
    await worker.close();
    await queue.close();
    await redis.close();
    await proxy.close();
  }, 40_000);

  it("may be away when the worker wants to report: the outcome is kept until it can", async () => {
    const proxy = await startProxy({ host: one.server.host, port: one.server.port });
    const redis = await connect(`redis://127.0.0.1:${proxy.port}`, { offlineWaitMs: 100 });
    const queue = one.queue();
    let runs = 0;
    const worker = new Worker(redis, queue.name, async () => {
      if (++runs > 1) return "again";
      proxy.refuse();
      proxy.cut();
      await new Promise((resolve) => setTimeout(resolve, 300));
      return "kept";
    });
    const job = await queue.add("a", 1, { keep: { completed: true } });
    await eventually(() => expect(runs).toBe(1), soon);
    await new Promise((resolve) => setTimeout(resolve, 500));
    await proxy.heal();
    await eventually(async () =>
      expect(await job.view()).toMatchObject({ state: "completed", result: "kept" }),
    );
    expect(runs).toBe(1);
    await worker.close();
    await redis.close();
    await proxy.close();
  }, 40_000);
});

describe("clocks", () => {
  it("of a worker that is an hour off make nothing early or late", async () => {
    for (const clockOffMs of [3_600_000, -3_600_000]) {
      const queue = one.queue();
      await spawn(queue, { clockOffMs, leaseMs: 2_000 });
      const addedAt = Date.now();
      await queue.add("note", 1, { delayMs: 300 });
      await eventually(async () => expect(await ranOf(queue)).toHaveLength(1), soon);
      expect(Date.now() - addedAt).toBeGreaterThanOrEqual(299);
      await queue.add("wait", 3_000); // longer than its lease, which is renewed
      await eventually(async () => expect((await queue.counts()).totals.completed).toBe(2), soon);
      expect(await queue.counts()).toMatchObject({ totals: { stalled: 0 } });
    }
  }, 120_000);
});

describe("what stands in Redis and is no job of ours", () => {
  it("is set aside with a reason and stops nobody", async () => {
    const queue = one.queue();
    const { jobs, wait } = queueKeys("ropeway:jobs", queue.name);
    const strange = {
      garbage: "no record at all",
      "bad options": "1;0;0;{no json\nname\n1",
      "bad data": "1;0;0;\nname\n{no json",
    };
    for (const [id, record] of Object.entries(strange)) {
      await one.redis.send(["HSET", jobs, id, record]);
      await one.redis.send(["RPUSH", wait, id]);
    }
    await one.redis.send(["RPUSH", wait, "nobody"]);
    await queue.add("fine", 1);
    const { seen, handler } = collector((job) => job.name);
    one.worker(queue, handler);
    await eventually(() => expect(seen).toEqual(["fine"]), soon);
    await eventually(async () =>
      expect(await queue.counts()).toMatchObject({ failed: 3, active: 0 }),
    );
    for (const id of Object.keys(strange)) {
      expect(await queue.get(id)).toMatchObject({ failure: { code: "JOB_MALFORMED" } });
    }
  });
});

it("a listener hears the events of a stream that begins again at an earlier time", async () => {
  const queue = one.queue();
  const events = one.keep(new QueueEvents(one.redis, queue.name));
  const heard: string[] = [];
  events.on("added", ({ id }) => void heard.push(id));
  await events.start();
  const key = queueKeys("ropeway:jobs", queue.name).events;
  const later = `${Date.now() + 3_600_000}-0`; // the clock is set back an hour after this
  await one.redis.send(["XADD", key, later, "event", "added", "id", "before", "name", "n"]);
  await eventually(() => expect(heard).toEqual(["before"]));
  await one.redis.send(["DEL", key]);
  const { id } = await queue.add("n");
  await eventually(() => expect(heard).toEqual(["before", id]), { withinMs: 20_000 });
}, 40_000);

it("a listener is heard of again when Redis comes back without its data", async () => {
  const proxy = await startProxy(one.server);
  const redis = await connect(proxy.url);
  const queue = one.queue();
  const events = await new QueueEvents(redis, queue.name).start();
  events.on("error", () => {}); // the connection is cut
  const seen: string[] = [];
  events.on("added", ({ id }) => void seen.push(id));
  const { meta } = queueKeys("ropeway:jobs", queue.name);
  await sleep(200); // it has announced itself, and repeats that in seconds
  await one.redis.send(["DEL", meta]);
  proxy.cut();
  const listening = async () => expect(await one.redis.send(["HEXISTS", meta, "listen"])).toBe(1);
  await eventually(listening, { withinMs: 15_000 });
  const { id } = await queue.add("job");
  await eventually(() => expect(seen).toEqual([id]));
  await events.close();
  await redis.close();
  await proxy.close();
});
