import { eventually } from "@ropeway/testkit";
import { describe, expect, it, vi } from "vitest";
import { type JobContext, RateLimitedError } from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { pairsOf } from "../src/scripts.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 15_000 };
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Handlers that wait until the test releases one. */
class Gates {
  readonly started: string[] = [];
  readonly #open: (() => void)[] = [];

  readonly handler = (job: JobContext) => {
    this.started.push(String(job.data));
    return new Promise<void>((resolve) => this.#open.push(resolve));
  };

  /** Ends the oldest running handler. */
  next(): void {
    this.#open.shift()?.();
  }
}

describe("a worker on several queues", () => {
  it("looks at the first queue each time a slot is free, also while a later one has work", async () => {
    const [high, low] = [one.queue(), one.queue()];
    await low.addBulk(Array.from({ length: 10 }, (_, i) => ({ name: "n", data: `low${i}` })));
    const gates = new Gates();
    one.worker([high, low], gates.handler);
    await eventually(() => expect(gates.started).toEqual(["low0"]), soon);
    await high.add("n", "high0");
    gates.next();
    await eventually(() => expect(gates.started).toHaveLength(2), soon);
    gates.next();
    await eventually(() => expect(gates.started).toHaveLength(3), soon);
    expect(gates.started).toEqual(["low0", "high0", "low1"]);
    gates.next();
  });

  it("fills all its slots from the first queue, however many calls that takes", async () => {
    const [high, low] = [one.queue(), one.queue()];
    await high.addBulk(Array.from({ length: 120 }, () => ({ name: "n", data: "high" })));
    await low.addBulk(Array.from({ length: 120 }, () => ({ name: "n", data: "low" })));
    const gates = new Gates();
    one.worker([high, low], gates.handler, { concurrency: 100 });
    await eventually(() => expect(gates.started).toHaveLength(100), soon);
    expect(new Set(gates.started)).toEqual(new Set(["high"]));
  });

  it("serves the later queues while calls to the first one fail", async () => {
    const [high, low] = [one.queue(), one.queue()];
    const { delayed } = queueKeys("ropeway:jobs", high.name);
    await one.redis.send(["SET", delayed, "foreign"]);
    await low.addBulk(Array.from({ length: 20 }, () => ({ name: "n" })));
    let ran = 0;
    one.worker([high, low], () => void ran++, { concurrency: 100 });
    await eventually(() => expect(ran).toBe(20), soon);
    await one.redis.send(["DEL", delayed]);
  });

  it("reports the jobs of a later queue while the first one has large jobs all the time", async () => {
    const [high, low] = [one.queue(), one.queue()];
    const data = "d".repeat(100_000);
    const real = QueueStore.prototype.next;
    const next = vi.spyOn(QueueStore.prototype, "next");
    let feeding = false;
    next.mockImplementation(async function (this: QueueStore, exchange) {
      if (feeding && this.name === high.name && exchange.want > 0) {
        await high.addBulk(Array.from({ length: exchange.want }, () => ({ name: "n", data })));
      }
      return real.call(this, exchange);
    });
    const gates = new Gates();
    const handler = (job: JobContext) => job.queue === low.name && gates.handler(job);
    one.worker([high, low], handler, { concurrency: 100 });
    await high.addBulk(Array.from({ length: 10 }, () => ({ name: "n", data })));
    await low.add("n", "low");
    await eventually(() => expect(gates.started).toEqual(["low"]), soon);
    feeding = true;
    await high.add("n", data);
    await eventually(async () => {
      expect((await high.counts()).totals.completed).toBeGreaterThan(100);
    }, soon);
    gates.next();
    await eventually(async () => expect((await low.counts()).active).toBe(0), soon);
    next.mockRestore();
  });

  it("is never handed a job while it is busy with another queue", async () => {
    const [high, low] = [one.queue(), one.queue()];
    const gates = new Gates();
    one.worker([high, low], gates.handler);
    await pause(100); // both queues are empty: it waits for a wake-up
    await low.add("n", "low");
    await eventually(() => expect(gates.started).toEqual(["low"]), soon);
    await high.add("n", "high");
    expect(await high.counts()).toMatchObject({ waiting: 1, active: 0 });
    gates.next();
    await eventually(() => expect(gates.started).toEqual(["low", "high"]), soon);
    gates.next();
  });
});

describe("first in, first out with one worker", () => {
  it("holds when jobs that were fetched ahead are handed back", async () => {
    const queue = one.queue();
    const seen: number[] = [];
    let release: () => void = () => {};
    const slow = new Promise<void>((resolve) => {
      release = resolve;
    });
    await queue.addBulk(Array.from({ length: 300 }, (_, i) => ({ name: "n", data: i })));
    one.worker(queue, async (job: JobContext) => {
      seen.push(Number(job.data));
      if (job.data === 100) await slow; // jobs fetched ahead wait and go back
    });
    await eventually(() => expect(seen).toHaveLength(101), soon);
    const { active } = queueKeys("ropeway:jobs", queue.name);
    await eventually(async () => expect(await one.redis.send(["HLEN", active])).toBe(1), soon);
    release();
    await eventually(() => expect(seen).toHaveLength(300), soon);
    expect(seen).toEqual(Array.from({ length: 300 }, (_, i) => i));
  });

  it("holds for priorities and groups that are handed back", async () => {
    const queue = one.queue();
    const options = [{ priority: 5 }, { group: "g" }];
    const jobs = options.flatMap((option) =>
      Array.from({ length: 20 }, (_, i) => ({ name: "n", data: i, options: option })),
    );
    await queue.addBulk(jobs);
    const first = one.worker(queue, () => new Promise(() => {}), {
      concurrency: 6,
      closeWithinMs: 0,
    });
    await eventually(() => expect(first.running).toBe(6), soon);
    await first.close();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const { active, lease } = store.keys;
    const tokens = pairsOf(await one.redis.send<string[]>(["HGETALL", active]));
    const fenceOf = (id: string) => Number.parseInt(tokens.get(id) ?? "", 10);
    const taken = [...tokens.keys()].sort((a, b) => fenceOf(a) - fenceOf(b));
    for (const [place, id] of taken.entries()) {
      // All leases have expired, in the order in which the jobs were taken, so the jobs go to the front together.
      await one.redis.send(["ZADD", lease, String(place), id]);
    }
    await store.move(100);
    expect(await queue.counts()).toMatchObject({ waiting: 40, active: 0 });
    const seen: { group: string; data: number }[] = [];
    one.worker(
      queue,
      (job: JobContext) => void seen.push({ group: job.group ?? "prio", data: job.data as number }),
    );
    await eventually(() => expect(seen).toHaveLength(40), soon);
    for (const group of ["g", "prio"]) {
      const order = seen.filter((job) => job.group === group).map((job) => job.data);
      expect(order).toEqual(Array.from({ length: 20 }, (_, i) => i));
    }
  });
});

describe("jobs that were fetched ahead", () => {
  it.each(["returns at once", "returns a promise"])(
    "do not start while the queue rests, with a handler that %s",
    async (how) => {
      const queue = one.queue();
      const seen: number[] = [];
      const handle = (job: JobContext) => {
        seen.push(job.data as number);
        const again = seen.filter((data) => data === job.data).length > 1;
        if ([50, 150].includes(job.data as number) && !again) throw new RateLimitedError(20);
      };
      const later = async (job: JobContext) => handle(job);
      await queue.addBulk(Array.from({ length: 200 }, (_, data) => ({ name: "n", data })));
      one.worker(queue, how === "returns at once" ? handle : later);
      await eventually(() => expect(seen).toHaveLength(202), soon);
      expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    },
  );
});

describe("priorities", () => {
  it("hold after more than 2^32 jobs had a place", async () => {
    const queue = one.queue();
    const { meta } = queueKeys("ropeway:jobs", queue.name);
    await queue.add("n", "plain");
    for (const seq of [2 ** 31 - 2, 2 ** 32 + 5, 2 ** 33]) {
      await one.redis.send(["HSET", meta, "seq", String(seq)]);
      await queue.add("n", `urgent ${seq}`, { priority: -1 });
      await queue.add("n", `late ${seq}`, { priority: 1 });
    }
    const seen: string[] = [];
    one.worker(
      queue,
      (job: JobContext) => void seen.push(String(job.data).split(" ")[0] as string),
    );
    await eventually(() => expect(seen).toHaveLength(7), soon);
    expect(seen).toEqual(["urgent", "urgent", "urgent", "plain", "late", "late", "late"]);
  });
});

it("jobs that were fetched ahead go back when the job before them takes long", async () => {
  const queue = one.queue();
  let release: () => void = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  one.worker(queue, (job: JobContext) => (job.name === "long" ? held : undefined));
  await queue.addBulk([
    ...Array.from({ length: 100 }, () => ({ name: "short" })),
    ...Array.from({ length: 20 }, () => ({ name: "long" })),
  ]);
  await eventually(async () => {
    expect(await queue.counts()).toMatchObject({ active: 1, waiting: 19 });
  }, soon);
  release();
});
