/** Bounds: time per script, bytes, and leftovers. */
import { eventually } from "@ropeway/testkit";
import { describe, expect, it, vi } from "vitest";
import { type JobContext, Queue, QueueEvents, Worker } from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { EventBuffer } from "../src/queue/event-buffer.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 20_000 };

describe("what is left behind", () => {
  it("after a life with everything are a few settings and counters", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const worker = one.worker(
      queue,
      async (job: JobContext) => {
        await job.log("a line");
        if (job.name === "bad" && job.attempt === 1) throw new Error("again");
        return job.children();
      },
      { concurrency: 10 },
    );
    await queue.addBulk([
      { name: "plain" },
      { name: "bad", options: { attempts: 2, backoff: 1 } },
      { name: "keyed", options: { dedupe: { key: "k", ttlMs: 50 } } },
      { name: "grouped", options: { group: "g", priority: 2 } },
      { name: "ordered", options: { priority: -2, delayMs: 5 } },
      { name: "kept", options: { keep: { completed: { ageMs: 20 } } } },
    ]);
    const root = await queue.addFlow({ name: "root", children: [{ name: "a" }, { name: "b" }] });
    await root.cancel().catch(() => "done");
    await eventually(async () => {
      const { waiting, delayed, active, blocked } = await queue.counts();
      expect(waiting + delayed + active + blocked).toBe(0);
    }, soon);
    await worker.close();
    await eventually(async () => {
      await store.move(100);
      const keys = (await one.server.command("KEYS", `*{${queue.name}}*`)) as string[];
      const names = keys.map((key) => key.split(":").at(-1)).filter((name) => name !== "wake");
      expect(names.sort()).toEqual(["adds", "history", "meta"]);
    }, soon);
  }, 60_000);

  it("of workers that died is forgotten by the mover", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const { idle, workers, adds, events, meta } = store.keys;
    await one.redis.send(["ZADD", idle, "1", "30000 dead"]);
    await one.redis.send(["HSET", workers, "dead", '1 {"leaseMs":1}']);
    for (let i = 0; i < 1_500; i++) await one.redis.send(["HSET", adds, `p${i}.0`, "1@1"]);
    await one.redis.send(["XADD", events, "*", "event", "added", "id", "x"]);
    for (let i = 0; i < 20; i++) {
      await one.redis.send(["HSET", meta, "minute", "1"]);
      await store.move(100);
    }
    expect(await one.redis.send(["EXISTS", idle, workers, events])).toBe(0);
    expect(await one.redis.send<number>(["HLEN", adds])).toBeLessThanOrEqual(1_000);
  });

  it("of producers, and of children from other queues, goes as fast as it comes", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const { adds } = store.keys;
    const now = await store.now();
    for (let first = 0; first < 20_000; first += 1_000) {
      const fields = Array.from({ length: 1_000 }, (_, i) => [
        `old queue#flow:p/${first + i}`,
        `1@${now - 2 * 3_600_000}`,
      ]);
      await one.redis.send(["HSET", adds, ...fields.flat()]);
    }
    await one.redis.send(["HSET", adds, "new producer.0", `7@${now}`]);
    one.worker(queue, () => 1);
    await eventually(async () => expect(await one.redis.send(["HLEN", adds])).toBe(1), soon);
    expect(await one.redis.send(["HGET", adds, "new producer.0"])).toBe(`7@${now}`);
  }, 60_000);

  it("of a trimmed job is nothing, and the rest stays", async () => {
    const queue = one.queue();
    const { jobs, notes, timers } = queueKeys("ropeway:jobs", queue.name);
    const keep = { completed: { count: 5, ageMs: 60_000 } };
    await queue.addBulk(Array.from({ length: 50 }, () => ({ name: "n", options: { keep } })));
    one.worker(queue, () => "r", { concurrency: 10 });
    await eventually(async () => {
      expect((await queue.counts()).totals.completed).toBe(50);
    }, soon);
    expect(await queue.counts()).toMatchObject({ completed: 5, waiting: 0 });
    expect(await one.redis.send(["HLEN", jobs])).toBe(5);
    expect(await one.redis.send(["HLEN", notes])).toBe(5);
    expect(await one.redis.send(["ZCARD", timers])).toBe(5);
  });
});

describe("bytes", () => {
  it("of large jobs are not fetched ahead in large numbers", async () => {
    const queue = one.queue();
    const { active } = queueKeys("ropeway:jobs", queue.name);
    const large = "x".repeat(1 << 20);
    await queue.addBulk(Array.from({ length: 60 }, () => ({ name: "n", data: large })));
    let done = 0;
    let most = 0;
    one.worker(queue, async () => {
      if (done++ % 5 === 0) {
        most = Math.max(most, await one.redis.send<number>(["HLEN", active]));
      }
    });
    await eventually(() => expect(done).toBe(60), { withinMs: 30_000 });
    expect(most).toBeLessThan(15);
  }, 60_000);

  it("of a long result are not kept in the event stream", async () => {
    const queue = one.queue();
    const { events: key } = queueKeys("ropeway:jobs", queue.name);
    const events = await queue.events();
    const truncated: unknown[] = [];
    events.on("completed", (event) => void truncated.push(event.truncated));
    one.worker(queue, () => "x".repeat(100_000));
    const result = await queue.run("n", 1, { timeoutMs: 10_000 });
    expect(String(result)).toHaveLength(100_000);
    await eventually(() => expect(truncated).toEqual([true]), soon);
    expect(await one.redis.send<number>(["MEMORY", "USAGE", key])).toBeLessThan(20_000);
  });
});

it("a queue forgets the listeners that were closed, and those that could not start", async () => {
  const queue = new Queue(one.redis, "listeners");
  for (let i = 0; i < 5; i++) await (await queue.events()).close();
  await one.server.command("CONFIG", "SET", "maxmemory", "1");
  for (let i = 0; i < 5; i++) await expect(queue.events()).rejects.toThrow();
  await one.server.command("CONFIG", "SET", "maxmemory", "0");
  const last = await queue.events();
  const close = vi.spyOn(QueueEvents.prototype, "close");
  await queue.close();
  expect(close.mock.contexts).toEqual([last]);
  close.mockRestore();
});

it("a reader that is slow loses the oldest events", async () => {
  const buffer = new EventBuffer<number>(() => {});
  for (let i = 0; i < 10_005; i++) buffer.push(i);
  expect(await buffer.next()).toEqual({ value: 5, done: false });
});

describe("a clock that was set back", () => {
  it("does not keep groups from running that met their rate before", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const { timers, capped, usage, meta } = store.keys;
    const hour = 3_600_000;
    await queue.setLimits({ groupRate: { max: 1, perMs: 500 } });
    const options = { group: "g" };
    await queue.addBulk([1, 2].map((data) => ({ name: "n", data, options })));
    const call = { worker: "w", leaseMs: hour, done: [], undone: [] };
    expect((await store.next({ ...call, want: 1 })).jobs).toHaveLength(2);
    expect((await store.next({ ...call, want: 1 })).jobs).toHaveLength(0);
    const now = await store.now();
    await one.redis.send(["ZADD", timers, String(now + hour), "gg", String(now + hour), "tg"]);
    await one.redis.send(["ZADD", capped, String(now + hour), "g"]);
    await one.redis.send(["HSET", usage, "tg", String(now + hour)]);
    await one.redis.send(["HSET", meta, "minute", String(Math.floor((now + hour) / 60_000))]);
    const seen: unknown[] = [];
    one.worker(queue, (job: JobContext) => void seen.push(job.data));
    await eventually(() => expect(seen).toEqual([2]), soon);
  });

  it("does not keep the jobs of dead workers", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const { active, lease, workers, meta } = store.keys;
    const now = await store.now();
    const hour = 3_600_000;
    const ends = { dead: now + hour, unknown: now + hour, patient: now + hour };
    for (const [id, at] of Object.entries(ends)) {
      await one.redis.send(["HSET", active, id, `1@${id}@1`]);
      await one.redis.send(["ZADD", lease, String(at), id]);
    }
    const about = (leaseMs: number) => `${now + hour} ${JSON.stringify({ leaseMs })}`;
    await one.redis.send(["HSET", workers, "dead", about(500), "patient", about(2 * hour)]);
    await one.redis.send(["HSET", meta, "minute", String(Math.floor((now + hour) / 60_000))]);
    await store.move(100);
    const endOf = async (id: string) => Number(await one.redis.send(["ZSCORE", lease, id])) - now;
    expect(await endOf("dead")).toBeLessThan(60_000);
    expect(await endOf("unknown")).toBeLessThan(90_000);
    expect(await endOf("patient")).toBe(hour); // a worker may have asked for that
  });
});

describe("a heartbeat", () => {
  it("extends the lease: a job longer than its lease runs once, with two workers", async () => {
    const queue = one.queue();
    let runs = 0;
    const handler = async () => {
      runs++;
      await new Promise((resolve) => setTimeout(resolve, 3_000));
    };
    for (let i = 0; i < 2; i++) one.worker(queue, handler, { leaseMs: 1_500 });
    await queue.add("n", 1);
    await eventually(async () => expect((await queue.counts()).totals.completed).toBe(1), soon);
    expect(runs).toBe(1);
    expect((await queue.counts()).totals.stalled).toBe(0);
  });

  it("of a dead worker with a short lease is missed soon, by an idle worker too", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const { idle } = store.keys;
    let taken = 0;
    one.worker(queue, () => void taken++, { leaseMs: 500 });
    await eventually(async () => expect(await one.redis.send(["ZCARD", idle])).toBe(1), soon);
    await one.redis.send(["DEL", idle]); // the next job is not handed over
    await new Promise((resolve) => setTimeout(resolve, 600)); // its mover has found nothing to do
    await one.redis.send(["HSET", store.keys.jobs, "x", "1;0;0;\nn\n1"]);
    await one.redis.send(["HSET", store.keys.active, "x", "1@dead@1"]);
    const time = await store.now();
    await one.redis.send(["ZADD", store.keys.lease, String(time + 500), "x"]);
    await eventually(() => expect(taken).toBe(1), { withinMs: 3_000 });
  });

  it("has given a handed-over job a lease, and a longer one soon after", async () => {
    const name = `lease ${Math.random()}`;
    const queue = one.keep(new Queue(one.redis, name));
    const { idle, lease, wake } = queueKeys("ropeway:jobs", name);
    await one.redis.send(["ZADD", idle, "9999999999999", "30000 somebody"]);
    const job = await queue.add("n", 1);
    const ends = Number(await one.redis.send(["ZSCORE", lease, job.id]));
    expect(ends).toBeGreaterThan(0);
    expect(await one.redis.send(["ZCARD", wake])).toBe(1);
    const worker = one.keep(
      new Worker(one.redis, name, () => new Promise(() => {}), { closeWithinMs: 0 }),
    );
    await eventually(() => expect(worker.running).toBe(1), soon);
    await eventually(async () => {
      expect(Number(await one.redis.send(["ZSCORE", lease, job.id]))).toBeGreaterThan(ends + 5_000);
    }, soon);
  });
});
