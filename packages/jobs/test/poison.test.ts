/** Jobs that crash their workers, and jobs that only run beside them. */
import { eventually, type Script, spawnScript } from "@ropeway/testkit";
import { afterEach, describe, expect, it } from "vitest";
import type { JobContext } from "../src/index.ts";
import { QueueStore } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 30_000 };
const FIXTURE = new URL("./worker.fixture.ts", import.meta.url);
const scripts: Script[] = [];

afterEach(async () => {
  await Promise.all(scripts.splice(0).map((script) => script.close()));
});

describe("a job that kills its worker", () => {
  it("does not take its neighbours with it into the dead letters", async () => {
    const queue = one.queue();
    await queue.add("die", 0, { id: "poison" });
    await queue.addBulk(
      Array.from({ length: 9 }, (_, i) => ({
        name: "wait",
        data: 300,
        options: { id: `innocent ${i}` },
      })),
    );
    const args = [one.server.url, queue.name];
    const options = { leaseMs: 400, concurrency: 10, maxStalls: 1 };
    for (let i = 0; i < 3; i++) {
      const script = await spawnScript(FIXTURE, { args: [...args, JSON.stringify(options)] });
      scripts.push(script);
      const done = eventually(async () => {
        expect(await queue.counts()).toMatchObject({ waiting: 0, active: 0, delayed: 0 });
      }, soon);
      if ((await Promise.race([script.exited.then(() => "died"), done])) !== "died") break;
      done.catch(() => {});
    }
    await eventually(async () => {
      expect(await queue.counts()).toMatchObject({ failed: 1, totals: { completed: 9 } });
    }, soon);
    expect(await queue.get("poison")).toMatchObject({ failure: { code: "JOB_STALLED" } });
  }, 90_000);
});

describe("a suspect", () => {
  it("runs alone: nothing else runs or is held beside it", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    await queue.addBulk(
      Array.from({ length: 30 }, (_, i) => ({ name: i % 10 === 5 ? "suspect" : "n", data: i })),
    );
    const taken = await store.next({
      worker: "w",
      leaseMs: 60_000,
      want: 30,
      done: [],
      undone: [],
    });
    for (let i = 0; i < 60; i += 2) {
      const [id, record] = [taken.jobs[i] as string, taken.jobs[i + 1] as string];
      const stalls = record.includes("suspect") ? 2 : 0; // one more is counted when its lease expires
      await one.redis.send(["HSET", store.keys.jobs, id, record.replace(";0;0;", `;0;${stalls};`)]);
      await one.redis.send(["ZADD", store.keys.lease, "1", id]);
    }
    await store.move(100);
    const running = new Set<number>();
    const beside: number[] = [];
    const held: number[] = [];
    let done = 0;
    const worker = one.worker(
      queue,
      async (job: JobContext) => {
        running.add(job.data as number);
        await new Promise((resolve) => setTimeout(resolve, 5));
        if (job.name === "suspect") {
          beside.push(running.size);
          held.push(await one.redis.send<number>(["HLEN", store.keys.active]));
        }
        running.delete(job.data as number);
        done++;
      },
      { concurrency: 10, maxStalls: 3 },
    );
    await eventually(() => expect(done).toBe(30), soon);
    expect(beside).toEqual([1, 1, 1]);
    expect(held).toEqual([1, 1, 1]);
    await eventually(() => expect(worker.running).toBe(0));
  });
});

describe("foreign values", () => {
  it("with options of wrong types stop neither mover nor worker", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const odd = [
      '{"p":"x"}',
      '{"p":1e99}',
      '{"g":5}',
      '{"g":{}}',
      '{"k":"all"}',
      '{"k":[1]}',
      '{"n":-1}',
      '{"n":1e9}',
      '{"f":7}',
      '{"d":[]}',
      '{"b":"often"}',
      '{"t":"long"}',
      '{"a":"many"}',
      "[1]",
      '"text"',
    ];
    for (const [i, options] of odd.entries()) {
      await one.redis.send(["HSET", store.keys.jobs, `odd${i}`, `1;0;0;${options}\nodd\n1`]);
      await one.redis.send(["ZADD", store.keys.delayed, "1", `odd${i}`]);
    }
    await queue.add("fine", 1, { delayMs: 1 });
    const seen: string[] = [];
    const errors: unknown[] = [];
    const worker = one.worker(queue, (job: JobContext) => void seen.push(job.name));
    worker.on("error", (error) => void errors.push(error));
    await eventually(() => expect(seen).toContain("fine"), soon);
    await eventually(async () => {
      const { waiting, delayed, active } = await queue.counts();
      expect({ waiting, delayed, active }).toEqual({ waiting: 0, delayed: 0, active: 0 });
    }, soon);
    expect(seen.filter((name) => name === "odd").length).toBeGreaterThanOrEqual(odd.length - 2);
  });

  it("in dedupe, notes and workers do not stop anybody", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    await one.redis.send(["HSET", store.keys.dedupe, "k", "what is this"]);
    await one.redis.send(["HSET", store.keys.workers, "w", "neither time nor JSON"]);
    const jobs = await Promise.all([
      queue.add("a", 1, { dedupe: "k", id: "x" }),
      queue.add("b", 2, { id: "y" }),
    ]);
    expect(jobs.map((job) => job.deduplicated)).toEqual([undefined, undefined]);
    await one.redis.send(["HSET", store.keys.notes, "x", "[["]);
    one.worker(queue, async (job: JobContext) => {
      await job.progress(1);
      throw new Error("no");
    });
    await eventually(async () => expect(await queue.counts()).toMatchObject({ failed: 2 }), soon);
    expect(await queue.workers()).toHaveLength(1);
  });
});
