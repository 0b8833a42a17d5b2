/** The time in a record: a producer sends its estimate, and Redis decides. */
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import type { Queue } from "../src/index.ts";
import { queueKeys } from "../src/keys.ts";
import { addScript } from "../src/scripts.ts";
import { QueueStore } from "../src/store/queue-store.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const LATE = 100; // as in plain.lua

const storeOf = (queue: Queue) => new QueueStore(one.redis, queue.prefix, queue.name);

/** Calls add.lua as another program does: id, place and record for each job. */
function call(queue: Queue, ...jobs: readonly string[]): Promise<unknown> {
  const { adding } = queueKeys(queue.prefix, queue.name);
  return one.redis.run(addScript, adding, ["other program", 1, "", "", ...jobs]);
}

function recordOf(queue: Queue, id: string): Promise<string> {
  return one.redis.send<string>(["HGET", queueKeys(queue.prefix, queue.name).jobs, id]);
}

const timeIn = (record: string) => Number(/^\d{13}(?=;)/.exec(record)?.[0]);

// plain.lua adds one job, the rest of add.lua adds several.
describe.each([
  ["one job", []],
  ["several jobs", ["other", "", ";0;0;\nn\n"]],
])("%s from another program", (_, others) => {
  it("has the time of Redis if it came without one", async () => {
    const queue = one.queue();
    const before = await storeOf(queue).now();
    expect(await call(queue, "a", "", ';0;0;{"a":3}\nn\n"x;y"', ...others)).toBe(
      1 + others.length / 3,
    );
    const record = await recordOf(queue, "a");
    expect(record.slice(13)).toBe(';0;0;{"a":3}\nn\n"x;y"');
    expect(timeIn(record)).toBeGreaterThanOrEqual(before);
    expect(timeIn(record)).toBeLessThanOrEqual(await storeOf(queue).now());
  });

  it.each([
    ["0", "unknown"],
    ["1000000000000", "long ago"],
    ["9999999999999", "in the future"],
    ["00000000000000000000", "too long"],
    ["9".repeat(400), "more than a number can be"],
  ])("has the time of Redis instead of %s (%s), and its caller learns it", async (time) => {
    const queue = one.queue();
    const before = await storeOf(queue).now();
    const reply = await call(queue, "a", "", `${time};0;0;\nn\n"x;y"`, ...others);
    const record = await recordOf(queue, "a");
    expect(record.slice(13)).toBe(';0;0;\nn\n"x;y"');
    expect(timeIn(record)).toBeGreaterThanOrEqual(before);
    expect(reply).toEqual([-1, timeIn(record), "time"]);
  });
});

describe("a replaced time", () => {
  it("is told beside the jobs that were not added", async () => {
    const queue = one.queue();
    await call(queue, "a", "", ";0;0;\nn\n1");
    const reply = await call(queue, "b", "", "5;0;0;\nn\n2", "a", "", "5;0;0;\nn\n3");
    expect(reply).toEqual([1, "a", "exists", -1, timeIn(await recordOf(queue, "b")), "time"]);
    expect(await recordOf(queue, "a")).toMatch(/^\d{13};0;0;\nn\n1$/);
  });

  it("leaves the first time of a job whose data is replaced", async () => {
    const queue = one.queue();
    const options = { delayMs: 60_000, dedupe: { key: "k", mode: "replace" as const } };
    const { id } = await queue.add("n", 1, options);
    const record = await recordOf(queue, id);
    await queue.add("n", { text: ";" }, options);
    expect(await recordOf(queue, id)).toBe(`${record.slice(0, -1)}{"text":";"}`);
  });
});

describe("a queue", () => {
  it("dates its jobs within LATE ms of Redis, from the first one on", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    const options = [{}, { delayMs: 60_000 }, { priority: 2 }, { group: "g" }, { dedupe: "k" }];
    for (let round = 0; round < 3; round++) {
      const before = await store.now();
      const bulk = options.map((option, i) => ({ name: "n", data: i, options: option }));
      const jobs = [await queue.add("n", 1), ...(await queue.addBulk(bulk))];
      const after = await store.now();
      for (const { id } of jobs.filter((job) => job.deduplicated === undefined)) {
        const addedAt = timeIn(await recordOf(queue, id));
        expect(addedAt).toBeGreaterThanOrEqual(before - LATE);
        expect(addedAt).toBeLessThanOrEqual(after);
      }
    }
  });

  it("sends a time that Redis keeps, once it has learned it", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    let number = 0;
    const add = async () => {
      const job = { id: `j${++number}`, where: "", record: ";0;0;\nn\n1" };
      await store.add({ producer: "p.0", number, jobs: [job] });
      const stored = await recordOf(queue, job.id);
      expect(stored).toMatch(/^\d{13};0;0;\nn\n1$/);
      return { sent: job.record, stored };
    };
    expect((await add()).sent).toBe("0;0;0;\nn\n1");
    await eventually(async () => {
      const { sent, stored } = await add();
      expect(stored).toBe(sent);
    });
  });

  it("keeps the data of each job of a call in which one exists already", async () => {
    const queue = one.queue();
    const { jobs } = queueKeys(queue.prefix, queue.name);
    await queue.add("n", 0);
    await one.redis.send(["HSET", jobs, "taken", "1;0;0;\nn\n1"]);
    const added = await Promise.all([
      queue.add("n", { text: "a" }),
      queue.add("n", { text: "b" }, { id: "taken" }),
      queue.add("n", { text: "c" }),
    ]);
    expect(added.map((job) => job.deduplicated)).toEqual([undefined, "exists", undefined]);
    const views = await Promise.all(added.map((job) => job.view()));
    expect(views.map((view) => view?.data)).toEqual([{ text: "a" }, 1, { text: "c" }]);
  });
});
