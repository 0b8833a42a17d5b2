import { InvalidNameError, InvalidOptionError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { InvalidDataError, JobNotFoundError, JobStateError } from "../src/index.ts";
import { queueKeys } from "../src/internal.ts";
import { collector, OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const numbers = (n: number) => Array.from({ length: n }, (_, i) => i);

describe("order", () => {
  it("is first in, first out", async () => {
    const queue = one.queue();
    await queue.addBulk(numbers(50).map((i) => ({ name: "n", data: i })));
    const { seen, handler } = collector((job) => job.data);
    one.worker(queue, handler);
    await eventually(() => expect(seen).toEqual(numbers(50)));
  });

  it("is last in, first out for jobs that ask for it", async () => {
    const queue = one.queue({ defaults: { lifo: true } });
    for (const i of numbers(5)) await queue.add("n", i);
    const { seen, handler } = collector((job) => job.data);
    one.worker(queue, handler);
    await eventually(() => expect(seen).toEqual([4, 3, 2, 1, 0]));
  });

  it("puts lower priorities first and keeps first in, first out within one", async () => {
    const queue = one.queue();
    const priorities = [0, 5, -1, 1, 5, 0, -3, -1];
    for (const [i, priority] of priorities.entries())
      await queue.add("n", [priority, i], { priority });
    const { seen, handler } = collector((job) => job.data);
    one.worker(queue, handler);
    const expected = priorities
      .map((p, i): [number, number] => [p, i])
      .sort(([p, i], [q, j]) => p - q || i - j);
    await eventually(() => expect(seen).toEqual(expected));
  });

  it("takes several queues in the order the worker names them", async () => {
    const [high, middle, low] = [one.queue(), one.queue(), one.queue()];
    for (const queue of [low, middle, high]) {
      await queue.addBulk(numbers(5).map((i) => ({ name: "n", data: `${queue.name} ${i}` })));
    }
    const { seen, handler } = collector((job) => job.data);
    one.worker([high, middle, low], handler);
    const expected = [high, middle, low].flatMap((q) => numbers(5).map((i) => `${q.name} ${i}`));
    await eventually(() => expect(seen).toEqual(expected));
  });
});

describe("time", () => {
  it("runs a delayed job when its delay is over, and not before", async () => {
    const queue = one.queue();
    const { seen, handler } = collector((job) => [job.name, Date.now()]);
    const from = Date.now();
    await queue.add("later", undefined, { delayMs: 700 });
    await queue.add("soon", undefined, { delayMs: 400 });
    await queue.add("at", undefined, { runAt: new Date(from + 550) });
    expect(await queue.counts()).toMatchObject({ delayed: 3, waiting: 0 });
    one.worker(queue, handler);
    await eventually(() => expect(seen).toHaveLength(3));
    expect(seen.map((entry) => (entry as [string])[0])).toEqual(["soon", "at", "later"]);
    const [soon, at, later] = seen.map((entry) => (entry as [string, number])[1] - from);
    expect(soon).toBeGreaterThanOrEqual(399);
    expect(at).toBeGreaterThanOrEqual(549);
    expect(later).toBeGreaterThanOrEqual(699);
  });

  it("runs a promoted job at once", async () => {
    const queue = one.queue();
    const { seen, handler } = collector((job) => job.name);
    one.worker(queue, handler);
    const job = await queue.add("later", undefined, { delayMs: 60_000 });
    expect(await job.view()).toMatchObject({ state: "delayed" });
    await queue.promote(job.id);
    await eventually(() => expect(seen).toEqual(["later"]));
    await expect(queue.promote(job.id)).rejects.toThrow(JobNotFoundError);
  });
});

describe("the same thing twice", () => {
  it("is one job when the ids are equal", async () => {
    const queue = one.queue();
    const [first, second] = await Promise.all([
      queue.add("a", 1, { id: "same" }),
      queue.add("b", 2, { id: "same" }),
    ]);
    expect([first.deduplicated, second.deduplicated]).toEqual([undefined, "exists"]);
    expect(await queue.get("same")).toMatchObject({ name: "a", data: 1 });
    expect(await queue.counts()).toMatchObject({ waiting: 1 });
  });

  it("is one job per key until that job has ended", async () => {
    const queue = one.queue();
    const first = await queue.add("a", 1, { dedupe: "key" });
    const second = await queue.add("a", 2, { dedupe: "key" });
    expect(second).toMatchObject({ id: first.id, deduplicated: "kept" });
    const { seen, handler } = collector((job) => job.data);
    one.worker(queue, handler);
    await eventually(async () => {
      const third = await queue.add("a", 3, { dedupe: "key" });
      expect(third.deduplicated).toBeUndefined();
    });
    await eventually(() => expect(seen).toEqual([1, 3]));
  });

  it("holds a key with a time to live longer than the job", async () => {
    const queue = one.queue();
    const { seen, handler } = collector((job) => job.data);
    one.worker(queue, handler);
    const dedupe = { key: "k", ttlMs: 1_500 };
    await queue.add("a", 1, { dedupe });
    await eventually(() => expect(seen).toEqual([1]));
    expect((await queue.add("a", 2, { dedupe })).deduplicated).toBe("kept");
    await eventually(async () => {
      expect((await queue.add("a", 3, { dedupe })).deduplicated).toBeUndefined();
    });
    await eventually(() => expect(seen).toEqual([1, 3]));
  });

  it("debounces: the last data wins and the delay starts anew, up to a longest wait", async () => {
    const queue = one.queue();
    const options = {
      delayMs: 60_000,
      dedupe: { key: "k", mode: "replace", maxWaitMs: 70_000 },
    } as const;
    const first = await queue.add("a", 1, options);
    const view = await first.view();
    const second = await queue.add("a", 2, { ...options, delayMs: 65_000 });
    expect(second).toMatchObject({ id: first.id, deduplicated: "replaced" });
    const later = await first.view();
    expect(later).toMatchObject({ data: 2, addedAt: view?.addedAt });
    expect(Number(later?.dueAt) - Number(view?.dueAt)).toBeGreaterThanOrEqual(5_000);
    await queue.add("a", 3, { ...options, delayMs: 500_000 });
    expect((await first.view())?.dueAt).toBe(Number(view?.addedAt) + 70_000);
    expect(await queue.counts()).toMatchObject({ delayed: 1 });
  });

  it.each(["addBulk", "add"])(
    "%s replaces in its order, however many calls that takes",
    async (verb) => {
      const queue = one.queue();
      const { prio, wait } = queueKeys("ropeway:jobs", queue.name);
      for (let first = 0; first < 100_000; first += 2_000) {
        const ids = Array.from({ length: 2_000 }, (_, i) => `another job ${first + i}`);
        await one.redis.send(["RPUSH", wait, ...ids]);
      }
      const jobs = (data: string, priority: number, count: number) =>
        Array.from({ length: count }, (_, i) => ({
          name: "n",
          data,
          options: { priority, id: `${i}`, dedupe: { key: `${i}`, mode: "replace" as const } },
        }));
      await queue.addBulk(jobs("before", 0, 50));
      // A batch of 500 ends before its last job, because replacing 5 searches a long list.
      const first = jobs("first", 3, 500);
      const all = [...first, ...jobs("last", 3, 50)].map((job, i) => {
        return { ...job, options: { ...job.options, id: `new ${i}` } };
      });
      if (verb === "addBulk") await queue.addBulk(all);
      else await Promise.all(all.map(({ name, data, options }) => queue.add(name, data, options)));
      const views = await Promise.all(Array.from({ length: 50 }, (_, i) => queue.get(`${i}`)));
      expect(views.map((view) => view?.data)).toEqual(views.map(() => "last"));
      const order = await one.redis.send<string[]>(["ZRANGE", prio, "0", "49"]);
      expect(order).toEqual(views.map((_, i) => `${i}`));
    },
  );

  it("replaces within one tick too", async () => {
    const queue = one.queue();
    const options = { delayMs: 60_000, dedupe: { key: "k", mode: "replace" } } as const;
    const jobs = await Promise.all([1, 2, 3].map((i) => queue.add("a", i, options)));
    expect(new Set(jobs.map((job) => job.id)).size).toBe(1);
    expect(await jobs[0]?.view()).toMatchObject({ data: 3 });
  });
});

describe("bad input", () => {
  it("is refused with the offending value and changes nothing", async () => {
    const queue = one.queue();
    const cyclic: Record<string, unknown> = {};
    cyclic.self = cyclic;
    await expect(queue.add("a", cyclic)).rejects.toThrow(InvalidDataError);
    await expect(queue.add("a", { n: 1n })).rejects.toThrow(InvalidDataError);
    await expect(queue.add("a", () => 1)).rejects.toThrow(/a function has no JSON form/);
    await expect(queue.add("")).rejects.toThrow(InvalidNameError);
    await expect(queue.add("two\nlines")).rejects.toThrow(InvalidNameError);
    await expect(queue.add("a", 1, { group: "a\0b" })).rejects.toThrow(InvalidNameError);
    await expect(queue.add("a", 1, { priority: 0.5 })).rejects.toThrow(InvalidOptionError);
    await expect(queue.add("a", 1, { delayMs: -1 })).rejects.toThrow(/delayMs is -1/);
    await expect(queue.add("a", 1, { attempts: 0 })).rejects.toThrow(/attempts is 0/);
    await expect(queue.add("a", 1, { dellay: 1 } as never)).rejects.toThrow(/dellay/);
    await expect(queue.setLimits({ rate: { max: 0, perMs: 1 } })).rejects.toThrow(/rate.max is 0/);
    expect(await queue.counts()).toMatchObject({ waiting: 0, delayed: 0 });
  });

  it("is not what a queue's name can be: braces, colons and other scripts are fine", async () => {
    for (const name of ["{a}:{b}", "日本語:очередь", "a b\tc", "}{", "%7B"]) {
      const queue = one.queue({}, name);
      const { seen, handler } = collector((job) => job.data);
      one.worker(queue, handler);
      await queue.add("a", name);
      await eventually(() => expect(seen).toEqual([name]));
    }
    const tags = ["{a}:{b}", "}{"].map((name) => queueKeys("p", name).wait);
    expect(tags).toEqual(["p:{%7Ba%7D:%7Bb%7D}:wait", "p:{%7D%7B}:wait"]);
  });
});

describe("operating a queue", () => {
  it("pauses and resumes", async () => {
    const queue = one.queue();
    const { seen, handler } = collector((job) => job.data);
    one.worker(queue, handler);
    await queue.pause();
    await queue.add("a", 1);
    expect(await queue.counts()).toMatchObject({ paused: true, waiting: 1 });
    await queue.resume();
    await eventually(() => expect(seen).toEqual([1]));
  });

  it("removes jobs wherever they wait and leaves nothing behind", async () => {
    const queue = one.queue();
    const jobs = await queue.addBulk([
      { name: "plain" },
      { name: "delayed", options: { delayMs: 60_000 } },
      { name: "ordered", options: { priority: 3 } },
      { name: "grouped", options: { group: "g" } },
      { name: "keyed", options: { dedupe: "k" } },
    ]);
    for (const job of jobs) await job.remove();
    await expect(queue.remove("nobody")).rejects.toThrow(JobNotFoundError);
    const left = await one.server.command("KEYS", `*{${queue.name}}*`);
    const expected = ["adds", "meta", "wake"].map((key) => `ropeway:jobs:{${queue.name}}:${key}`);
    expect((left as string[]).sort()).toEqual(expected);
  });

  it("drains what waits and what is delayed, groups and priorities included", async () => {
    const queue = one.queue();
    await queue.addBulk(
      numbers(1_500).map((i) => ({
        name: "n",
        options:
          i % 3 === 0
            ? { group: `g${i % 7}` }
            : i % 3 === 1
              ? { priority: i % 5 }
              : { delayMs: 1e6 },
      })),
    );
    expect(await queue.drain()).toBe(1_500);
    expect(await queue.counts()).toMatchObject({ waiting: 0, delayed: 0 });
    const { jobs, places, groups } = queueKeys("ropeway:jobs", queue.name);
    expect(await one.redis.send(["EXISTS", jobs, places, groups])).toBe(0);
  });

  it("gives a waiting job other data, and says why it cannot", async () => {
    const queue = one.queue();
    const job = await queue.add("a", 1, { keep: { completed: true } });
    await queue.update(job.id, { data: 2 });
    const { seen, handler } = collector((job) => job.data);
    one.worker(queue, handler);
    await eventually(async () => expect(await job.view()).toMatchObject({ state: "completed" }));
    expect(seen).toEqual([2]);
    await expect(queue.update(job.id, { data: 3 })).rejects.toThrow(JobStateError);
  });

  it("keeps ended jobs by count and by age", async () => {
    const queue = one.queue({ defaults: { keep: { completed: { count: 3, ageMs: 400 } } } });
    one.worker(queue, (job: { data: number }) => job.data * 2);
    for (const i of numbers(6)) await queue.add("n", i, { id: `job ${i}` });
    await eventually(async () => {
      expect(await queue.counts()).toMatchObject({ completed: 3, totals: { completed: 6 } });
    });
    expect(await queue.get("job 5")).toMatchObject({ state: "completed", result: 10 });
    await eventually(async () => expect(await queue.get("job 0")).toBeUndefined());
    await eventually(async () => expect(await queue.counts()).toMatchObject({ completed: 0 }));
    expect(await queue.get("job 5")).toBeUndefined();
  });

  it("runs a failed job again on retry, with all its attempts", async () => {
    const queue = one.queue();
    let broken = true;
    one.worker(queue, () => {
      if (broken) throw new Error("broken");
      return "fine";
    });
    const job = await queue.add("a", 1, { keep: { completed: 1 } });
    const other = await queue.add("a", 1, { keep: { completed: 1 } });
    await eventually(async () => expect(await queue.counts()).toMatchObject({ failed: 2 }));
    expect(await job.view()).toMatchObject({
      failure: { message: "broken", name: "Error" },
      attempts: 1,
    });
    broken = false;
    await queue.retry(job.id);
    await eventually(async () => expect(await job.view()).toMatchObject({ state: "completed" }));
    expect(await queue.retryAll()).toBe(1);
    await eventually(async () => expect(await other.view()).toMatchObject({ state: "completed" }));
  });

  it("finds jobs by state, name, group, id and text", async () => {
    const queue = one.queue();
    await queue.addBulk(
      numbers(3_000).map((i) => ({
        name: i % 2 === 0 ? "even" : "odd",
        data: { to: `user${i}@example.org` },
        options: i % 10 === 0 ? { delayMs: 1e6 } : i % 10 === 1 ? { group: `g${i % 3}` } : {},
      })),
    );
    const one1234 = await queue.search({ text: "user1234@" });
    expect(one1234.items.map((job) => job.data)).toEqual([{ to: "user1234@example.org" }]);
    expect((await queue.search({ state: "delayed", limit: 1_000 })).items).toHaveLength(300);
    const byGroup = await queue.search({ group: "g1", limit: 1_000 });
    expect(byGroup.items).toHaveLength(100);
    expect(byGroup.items.every((job) => job.group === "g1")).toBe(true);
    const seen = new Set<string>();
    let cursor: string | undefined;
    do {
      const page = await queue.search({ name: "odd", limit: 400, cursor });
      for (const job of page.items) seen.add(job.id);
      cursor = page.cursor;
    } while (cursor !== undefined);
    expect(seen.size).toBe(1_500);
    const [id] = seen;
    expect((await queue.search({ text: id as string })).items.map((job) => job.id)).toEqual([id]);
  });

  it("finds one of 100,000 jobs, and walks through all of them page by page", async () => {
    const queue = one.queue();
    await queue.addBulk(
      numbers(100_000).map((i) => ({ name: i % 1_000 === 0 ? "rare" : "n", data: `job ${i};` })),
    );
    const found = await queue.search({ text: "job 98765;" });
    expect(found.items.map((job) => job.data)).toEqual(["job 98765;"]);
    expect((await queue.search({ name: "rare", limit: 500 })).items).toHaveLength(100);
    expect(await queue.drain(["waiting"])).toBe(100_000);
  }, 60_000);
});
