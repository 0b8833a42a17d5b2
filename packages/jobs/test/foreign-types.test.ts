/** Another program has put a value of another type under one of a queue's keys. */
import { RopewayError, WrongKeyTypeError } from "@ropeway/core";
import { describe, expect, it } from "vitest";
import { JOB_STATES, type Queue } from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const NAMES = queueKeys("p", "q").all.map((key) => key.split(":").at(-1) as string);

/** Jobs in every state that a job can wait in, and one that runs. */
async function fill(queue: Queue, store: QueueStore): Promise<number> {
  await queue.add("running");
  const call = { worker: "w", leaseMs: 60_000, want: 1, done: [], undone: [] };
  const { firstFence } = await store.next(call);
  await queue.addBulk([
    { name: "plain" },
    { name: "kept", options: { keep: { completed: true } } },
    { name: "due", options: { id: "due", delayMs: 60_000 } },
    { name: "urgent", options: { priority: -1 } },
    { name: "grouped", options: { group: "g" } },
    { name: "keyed", options: { dedupe: "k" } },
  ]);
  await queue.addFlow({ name: "p", options: { id: "p" }, children: [{ name: "c" }] });
  await one.redis.send(["ZADD", store.keys.delayed, "1", "due"]); // its delay is over
  return firstFence + 1;
}

/** Calls everything that a queue offers, one after the other; errors must be ours. */
async function tryEverything(queue: Queue, store: QueueStore, fence: number): Promise<void> {
  const running = (await one.redis.send<string[]>(["HKEYS", store.keys.active]).catch(() => []))[0];
  const next = { worker: "w", leaseMs: 60_000, want: 2, done: [], undone: [] };
  const ended = { id: running ?? "none", fence, json: "{}" };
  const steps: (() => Promise<unknown>)[] = [
    () => queue.add("plain"),
    () => queue.addBulk([{ name: "a" }, { name: "b" }]),
    () => queue.add("ordered", 1, { priority: 2, dedupe: "d", delayMs: 1 }),
    () => queue.add("grouped", 1, { group: "h", awaited: true }),
    () =>
      queue.addFlow({ name: "q", children: [{ name: "c" }, { name: "d", queue: "elsewhere" }] }),
    () => store.next({ ...next, want: 1 }),
    () => store.move(100),
    () => store.next({ ...next, undone: [{ ...ended, how: "10" }] }),
    () => store.next(next),
    () => queue.update("due", { priority: 4 }),
    () => queue.remove("p/0"),
    () => store.move(100),
    () => store.next({ ...next, want: 500 }),
    () => queue.drain(["failed"]),
  ];
  for (const step of steps) {
    await step().catch((error: unknown) => expect(error).toBeInstanceOf(RopewayError));
  }
}

/** Expects every job in exactly one place, and a lease for each running job. */
async function expectOnePlaceEach(queue: Queue, store: QueueStore): Promise<void> {
  const { jobs, active, lease } = store.keys;
  const ids = await one.redis.send<string[]>(["HKEYS", jobs]);
  const { items } = await queue.search({ state: JOB_STATES, limit: 1_000 });
  expect(items.map(({ id }) => id).sort()).toEqual(ids.sort());
  const holders = await one.redis.send<string[]>(["HKEYS", active]);
  expect(holders.sort()).toEqual(
    (await one.redis.send<string[]>(["ZRANGE", lease, "0", "-1"])).sort(),
  );
}

describe("a foreign value under a key", () => {
  it.each(NAMES)("%s: errors are typed, and no job is lost or in two places", async (name) => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const fence = await fill(queue, store);
    const key = store.keys[name as "meta"];
    const [aside, foreign] = [`${key}:aside`, ["SET", key, "foreign"]];
    const there = (await one.redis.send(["EXISTS", key])) === 1;
    if (there) await one.redis.send(["RENAME", key, aside]);
    await one.redis.send(foreign);
    await tryEverything(queue, store, fence);
    await one.redis.send(["DEL", key]);
    if (there) await one.redis.send(["RENAME", aside, key]);
    await store.move(100);
    await expectOnePlaceEach(queue, store);
  });
});

describe("a foreign setting", () => {
  const take = { worker: "w", leaseMs: 60_000, want: 10, done: [], undone: [] };
  const add = (queue: Queue) =>
    queue.addBulk([
      { name: "n", options: { priority: -1 } },
      { name: "n", options: { group: "g" } },
      { name: "n" },
    ]);

  it.each([
    ["conc", "many"],
    ["conc", "9.5"], // more than there are
    ["max", "many"],
    ["max", "5"], // without its interval
    ["gconc", "many"],
    ["gmax", "5"],
    ["hold", "long"],
    ["turn", "mine"],
    ["listen", "soon"],
  ])("%s %j counts as not set", async (field, value) => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    await one.redis.send(["HSET", store.keys.meta, field, value]);
    await add(queue);
    expect((await store.next(take)).jobs).toHaveLength(6);
    await queue.add("n");
    expect((await store.next(take)).jobs).toHaveLength(2);
    await store.move(100);
    await queue.drain(["failed"]);
  });

  it("of a group's usage counts as not set, and is replaced", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    await queue.setLimits({ groupConcurrency: 2, groupRate: { max: 100, perMs: 1_000 } });
    const { usage, timers } = store.keys;
    const spoil = () => one.redis.send(["HSET", usage, "ag", "many", "tg", "soon"]);
    await add(queue);
    await spoil();
    const { firstFence, jobs } = await store.next(take);
    expect(jobs).toHaveLength(6);
    await spoil();
    const ids = jobs.filter((_, i) => i % 2 === 0);
    const undone = ids.map((id, i) => ({ id, fence: firstFence + i + 1, how: "back", json: "{}" }));
    await store.next({ ...take, want: 0, undone });
    expect((await store.next(take)).jobs).toHaveLength(6);
    await one.redis.send(["HSET", usage, "tg", "soon"]);
    await one.redis.send(["ZADD", timers, "1", "tg"]);
    await store.move(100);
    expect(await one.redis.send(["HGETALL", usage])).toEqual(["ag", "1"]);
  });

  it("is no job of a group: it is passed over, and counts for no limit", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    await queue.setLimits({ groupConcurrency: 1 });
    const { grouped, groups, usage } = store.keys;
    const gone = `g\0${"0".repeat(19)}gone`;
    await one.redis.send(["ZADD", grouped, "0", "junk", "0", "g\0", "0", gone]);
    await one.redis.send(["ZADD", groups, "0", "junk"]);
    await queue.add("n", 1, { group: "g" });
    expect((await queue.counts()).waiting).toBe(4);
    expect((await queue.search({ state: "waiting" })).items).toHaveLength(1);
    const taken: string[] = [];
    for (let i = 0; i < 3; i++) taken.push(...(await store.next({ ...take, want: 1 })).jobs);
    expect(taken).toHaveLength(2);
    expect(await one.redis.send(["HGETALL", usage])).toEqual(["ag", "1"]);
    await queue.drain(["waiting"]);
    expect(await one.redis.send(["EXISTS", grouped, groups])).toBe(0);
  });

  it("fence stops workers with a typed error, and no job is lost", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    await add(queue);
    for (const fence of ["mine", "9223372036854775807"]) {
      await one.redis.send(["HSET", store.keys.meta, "fence", fence]);
      await expect(store.next(take)).rejects.toThrow(WrongKeyTypeError);
    }
    await one.redis.send(["HDEL", store.keys.meta, "fence"]);
    expect((await store.next(take)).jobs).toHaveLength(6);
  });
});

describe("a call that takes many plain jobs", () => {
  const call = { worker: "w", leaseMs: 60_000, want: 40, done: [], undone: [] };

  it.each(NAMES)("leaves none behind that it does not return: %s", async (name) => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    await queue.addBulk(Array.from({ length: 50 }, () => ({ name: "n" })));
    const key = store.keys[name as "meta"];
    const there = (await one.redis.send(["EXISTS", key])) === 1;
    if (there) await one.redis.send(["RENAME", key, `${key}:aside`]);
    await one.redis.send(["SET", key, "foreign"]);
    const taken = await store.next(call).then(
      ({ jobs }) => jobs.length / 2,
      () => 0,
    );
    await one.redis.send(["DEL", key]);
    if (there) await one.redis.send(["RENAME", `${key}:aside`, key]);
    const expected = { waiting: 50 - taken, active: taken };
    if (name !== "wait") expect(await queue.counts()).toMatchObject(expected);
    expect(await one.redis.send(["ZCARD", store.keys.lease])).toBe(taken);
  });

  it("knows jobs with any id", async () => {
    const queue = one.queue();
    const store = new QueueStore(one.redis, "ropeway:jobs", queue.name);
    const ids = ["-", "0", " ", "é", "\x7f"].map((letter) => letter.repeat(65));
    const plain = Array.from({ length: 40 - ids.length }, () => ({ name: "n" }));
    await queue.addBulk([...ids.map((id) => ({ name: "n", options: { id } })), ...plain]);
    expect((await store.next(call)).jobs).toHaveLength(80);
    const held = [];
    for (const id of ids) held.push(await one.redis.send(["HEXISTS", store.keys.active, id]));
    expect(held).toEqual(ids.map(() => 1));
    expect(await queue.counts()).toMatchObject({ active: 40 });
  });
});
