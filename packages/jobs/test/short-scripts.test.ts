/** The cost of a script for Redis with many, large and old jobs. */
import { eventually } from "@ropeway/testkit";
import { describe, expect, it, vi } from "vitest";
import type { JobOptions } from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 20_000 };

/** CPU time of Redis in ms, and the number of scripts it ran. Neither depends on the load of the machine. */
async function usage(): Promise<{ cpuMs: number; scripts: number }> {
  const [cpu, stats] = (await Promise.all([
    one.server.command("INFO", "cpu"),
    one.server.command("INFO", "commandstats"),
  ])) as [string, string];
  const seconds = [...cpu.matchAll(/used_cpu_(?:user|sys)_main_thread:([\d.]+)/g)];
  const calls = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)];
  const sum = (found: RegExpMatchArray[]) => found.reduce((all, one) => all + Number(one[1]), 0);
  return { cpuMs: sum(seconds) * 1_000, scripts: sum(calls) };
}

/** The average cost of a script for Redis in ms while each step runs; the maximum of all steps. */
async function costliest(steps: readonly (() => Promise<unknown>)[]): Promise<number> {
  let most = 0;
  for (const step of steps) {
    const before = await usage();
    await step();
    const after = await usage();
    const scripts = after.scripts - before.scripts;
    expect(scripts).toBeGreaterThan(0);
    most = Math.max(most, (after.cpuMs - before.cpuMs) / scripts);
  }
  return most;
}

describe("no script takes long", () => {
  it("with 100,000 groups that a limit holds back, or 100,000 jobs in one group", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    await queue.addBulk(
      Array.from({ length: 100_000 }, (_, i) => ({ name: "n", options: { group: `g${i}` } })),
    );
    await queue.addBulk(
      Array.from({ length: 100_000 }, (_, i) => ({
        name: "n",
        options: { group: "big", id: `b${i}` },
      })),
    );
    await queue.setLimits({ groupRate: { max: 1, perMs: 3_600_000 } });
    // Every group has used its token.
    const now = Date.now() + 3_600_000;
    for (let first = 0; first < 100_000; first += 1_000) {
      const fields = Array.from({ length: 1_000 }, (_, i) => [
        `tg${first + i}`,
        String(now),
      ]).flat();
      await one.redis.send(["HSET", store.keys.usage, ...fields]);
    }
    const call = { worker: "w", leaseMs: 60_000, want: 100, done: [], undone: [] };
    const longest = await costliest([
      ...Array.from({ length: 5 }, () => () => store.next(call)),
      () => queue.cancel("b50000"),
      () => queue.update("b60000", { priority: 3 }),
      () => queue.remove("b99999"),
      () => queue.setLimits({ groupRate: null }),
      () => store.move(500),
      () => queue.counts(),
      () => queue.search({ text: "nowhere", scan: 5_000 }),
      () => queue.drain(["waiting"], { olderThanMs: 60_000 }),
    ]);
    expect(longest).toBeLessThan(50);
    await queue.obliterate({ force: true });
  }, 180_000);
});

describe("scripts stay short", () => {
  it("with 100 MB of large jobs", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const data = "d".repeat(100_000);
    const options = { delayMs: 1 };
    for (let i = 0; i < 20; i++) {
      await queue.addBulk(Array.from({ length: 50 }, () => ({ name: "n", data, options })));
    }
    const found: number[] = [];
    const longest = await costliest([
      () => queue.search({ state: "delayed", text: "nowhere" }),
      () => eventually(async () => expect((await store.move(500)).moved).toBe(0), soon),
      async () => found.push((await queue.search({ state: "waiting", limit: 1_000 })).items.length),
      () => queue.search({ state: "waiting", text: "nowhere" }),
      async () => found.push(await queue.drain(["waiting"], { olderThanMs: 3_600_000 })),
      async () => found.push(await queue.drain(["waiting"])),
    ]);
    expect(found).toEqual([1_000, 0, 1_000]);
    expect(longest).toBeLessThan(50);
  }, 120_000);

  it("with large jobs that need not be kept any longer", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const { completed, jobs, timers } = store.keys;
    const data = "d".repeat(100_000);
    const fill = async (options: string, timer: string) => {
      for (let first = 0; first < 500; first += 50) {
        const ids = Array.from({ length: 50 }, (_, i) => `old ${first + i}`);
        const records = ids.flatMap((id) => [id, `1;1;0;${options}\nn\n"${data}"`]);
        await one.redis.send(["HSET", jobs, ...records]);
        await one.redis.send(["ZADD", completed, ...ids.flatMap((id) => ["1", id])]);
        if (timer === "") continue;
        await one.redis.send(["ZADD", timers, ...ids.flatMap((id) => ["1", `${timer}${id}`])]);
      }
    };
    const left = () => one.redis.send<number>(["ZCARD", completed]);
    const move = async () => {
      while ((await left()) > 0) await store.move(500);
    };
    await fill('{"k":[-1,1,-1,1]}', "j");
    expect(await costliest([move])).toBeLessThan(30);
    await fill("", "");
    const options = { keep: { completed: 10 } };
    await queue.addBulk(Array.from({ length: 100 }, () => ({ name: "n", options })));
    const call = { worker: "w", leaseMs: 60_000, done: [], undone: [] };
    const taken = await store.next({ ...call, want: 100 });
    const done = Array.from({ length: 100 }, (_, i) => {
      const id = taken.jobs[i * 2] as string;
      return { id, fence: taken.firstFence + i + 1, how: "s", json: "1" };
    });
    expect(await costliest([() => store.next({ ...call, want: 0, done })])).toBeLessThan(50);
    // One goes for each job that ends, and more as long as they are not too many bytes.
    expect(await left()).toBeLessThan(500);
    expect(await left()).toBeGreaterThan(300);
  }, 60_000);

  it("with large jobs in a queue that is deleted", async () => {
    const queue = one.queue();
    const parents = one.queue();
    const { jobs } = queueKeys("ropeway:jobs", queue.name);
    const data = "d".repeat(1_000_000);
    for (let first = 0; first < 100; first += 10) {
      const ids = Array.from({ length: 10 }, (_, i) => `old ${first + i}`);
      await one.redis.send(["HSET", jobs, ...ids.flatMap((id) => [id, `1;0;0;\nn\n"${data}"`])]);
    }
    const child = { f: "parent", q: parents.name, y: "flow" };
    await one.redis.send(["HSET", jobs, "child", `1;0;0;${JSON.stringify(child)}\nn\n`]);
    const told = vi.spyOn(QueueStore.prototype, "recordChild");
    let deleted = 0;
    const obliterate = async () => {
      deleted = await queue.obliterate({ force: true });
    };
    expect(await costliest([obliterate])).toBeLessThan(50);
    expect(deleted).toBe(101);
    expect(told).toHaveBeenCalledOnce();
    told.mockRestore();
  });

  it("with large jobs for many slots", async () => {
    const queue = one.queue();
    const data = "d".repeat(100_000);
    for (let i = 0; i < 4; i++)
      await queue.addBulk(Array.from({ length: 50 }, () => ({ name: "n", data })));
    const sizes: number[] = [];
    const real = QueueStore.prototype.next;
    const next = vi.spyOn(QueueStore.prototype, "next");
    next.mockImplementation(async function (this: QueueStore, exchange) {
      const taken = await real.call(this, exchange);
      sizes.push(taken.jobs.join("").length);
      return taken;
    });
    let ran = 0;
    one.worker(queue, () => void ran++, { concurrency: 500 });
    await eventually(() => expect(ran).toBe(200), soon);
    next.mockRestore();
    expect(Math.max(...sizes)).toBeLessThan(6_000_000);
  });

  it.each<JobOptions>([{}, { priority: 3 }, { priority: -3 }, { group: "g" }])(
    "with large jobs after small ones: %j",
    async (options) => {
      const queue = one.queue();
      const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
      const add = (first: number, size: number, count: number) =>
        queue.addBulk(
          Array.from({ length: count }, (_, i) => {
            const how = { ...options, id: `${first + i}` };
            return { name: "n", data: "d".repeat(size), options: how };
          }),
        );
      await add(0, 10, 33);
      await add(33, 1_000_000, 27);
      const call = { worker: "w", leaseMs: 60_000, want: 500, done: [], undone: [] };
      const ids: string[] = [];
      for (let left = 60; left > 0; ) {
        const { jobs, laterMs, firstFence } = await store.next(call);
        const taken = jobs.filter((_, i) => i % 2 === 0);
        expect(jobs.join("").length).toBeLessThan(10_000_000); // 4 MB and 8 jobs at most
        left -= taken.length;
        if (left > 0) expect(laterMs).toBe(0);
        ids.push(...taken);
        const ended = taken.map((id, i) => ({ id, fence: firstFence + i + 1 }));
        const done = ended.map((job) => ({ ...job, how: "s", json: "1" }));
        await store.next({ ...call, want: 0, done });
      }
      expect(ids).toEqual(Array.from({ length: 60 }, (_, i) => `${i}`));
      const { active, jobs, lease, usage } = store.keys;
      expect(await one.redis.send(["EXISTS", active, jobs, lease, usage])).toBe(0);
    },
  );

  it("with large jobs that end at the same time and are kept", async () => {
    const queue = one.queue();
    const data = "d".repeat(500_000);
    for (let i = 0; i < 40; i++) await queue.add("n", data, { keep: { completed: true } });
    const counts: number[] = [];
    const real = QueueStore.prototype.next;
    const next = vi.spyOn(QueueStore.prototype, "next");
    next.mockImplementation(function (this: QueueStore, exchange) {
      counts.push(exchange.done.length);
      return real.call(this, exchange);
    });
    let started = 0;
    let end = () => {};
    const gate = new Promise<void>((resolve) => {
      end = resolve;
    });
    const handler = () => {
      started += 1;
      return gate;
    };
    one.worker(queue, handler, { concurrency: 40 });
    await eventually(() => expect(started).toBe(40), soon);
    end();
    await eventually(async () => expect((await queue.counts()).completed).toBe(40), soon);
    next.mockRestore();
    expect(Math.max(...counts)).toBeLessThan(12);
  });

  it("with jobs that are replaced and change their place in a long list", async () => {
    const queue = one.queue();
    const { prio, wait } = queueKeys("ropeway:jobs", queue.name);
    for (let first = 0; first < 600_000; first += 2_000) {
      const ids = Array.from({ length: 2_000 }, (_, i) => `another job ${first + i}`);
      await one.redis.send(["RPUSH", wait, ...ids]);
    }
    const add = (priority: number, count: number) =>
      queue.addBulk(
        Array.from({ length: count }, (_, i) => ({
          name: "n",
          data: priority,
          options: { priority, id: `${priority}.${i}`, dedupe: { key: `${i}`, mode: "replace" } },
        })),
      );
    await add(0, 23);
    let outcomes: unknown[] = [];
    const replace = async () => {
      outcomes = (await add(3, 20)).map(({ id, deduplicated }) => [id, deduplicated]);
    };
    expect(await costliest([replace])).toBeLessThan(50);
    expect(outcomes).toEqual(Array.from({ length: 20 }, (_, i) => [`0.${i}`, "replaced"]));
    const ids = Array.from({ length: 20 }, (_, i) => `0.${i}`);
    expect(await one.redis.send(["ZRANGE", prio, "0", "-1"])).toEqual(ids);
    expect(await one.redis.send(["LLEN", wait])).toBe(600_003);
    expect(await queue.get("0.19")).toMatchObject({ data: 3, priority: 3 });
    // A repeated call ends where the first one did.
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const jobs = [20, 21, 22].map((i) => {
      const where = JSON.stringify({ p: 4, k: [`${i}`, 0, "replace", 0] });
      return { id: `4.${i}`, where, record: ";0;0;\nn\n4" };
    });
    const call = { producer: "p.0", number: 1, jobs };
    const first = await store.add(call);
    expect(first).toMatchObject({ stoppedAt: 1 });
    expect(await store.add({ ...call, repeated: true })).toEqual(first);
    expect(await one.redis.send(["LLEN", wait])).toBe(600_002);
    await queue.obliterate({ force: true });
  }, 60_000);

  it("with many ended jobs that are more than a new job keeps", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const { completed, jobs } = store.keys;
    for (let first = 0; first < 20_000; first += 1_000) {
      const ids = Array.from({ length: 1_000 }, (_, i) => `old ${first + i}`);
      const records = ids.flatMap((id) => [id, '1;1;0;{"k":[-1,0,-1,0]}\nn\n']);
      await one.redis.send(["HSET", jobs, ...records]);
      await one.redis.send(["ZADD", completed, ...ids.flatMap((id) => ["1", id])]);
    }
    const options = { keep: { completed: 10 } };
    const wanted = Array.from({ length: 500 }, () => ({ name: "n", options }));
    await queue.addBulk(wanted);
    const call = { worker: "w", leaseMs: 60_000, done: [], undone: [] };
    const taken = await store.next({ ...call, want: 500 });
    const done = wanted.map((_, i) => {
      const id = taken.jobs[i * 2] as string;
      return { id, fence: taken.firstFence + i + 1, how: "s", json: "1" };
    });
    await store.next({ ...call, want: 0, done });
    expect(await queue.counts()).toMatchObject({ completed: 20_500 - 600 });
    expect(await one.redis.send(["HLEN", jobs])).toBe(20_500 - 600);
  });

  it("with parents of many children", async () => {
    const queue = one.queue();
    const children = Array.from({ length: 1_000 }, () => ({ name: "c" }));
    for (let i = 0; i < 100; i++) await queue.addFlow({ name: "p", children });
    const { blocked, delayed, failed, jobs, timers } = queueKeys("ropeway:jobs", queue.name);
    let dropped = 0;
    const drain = async () => {
      dropped = await queue.drain(["blocked"]);
    };
    expect(await costliest([drain])).toBeLessThan(50);
    expect(dropped).toBe(100);
    expect(await one.redis.send(["EXISTS", blocked, delayed, failed, timers])).toBe(0);
    expect(await one.redis.send(["HLEN", jobs])).toBe(100_000);
    await queue.obliterate();
  }, 120_000);
});
