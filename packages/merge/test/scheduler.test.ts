import { connect } from "@ropeway/core";
import { eventually, startRedis } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { expect, test, vi } from "vitest";
import {
  AddressGuard,
  HttpDispatcher,
  Inspector,
  keyOf,
  MergeQueue,
  type Schedule,
  Scheduler,
  Schedules,
} from "../src/index.ts";
import { PushSignal } from "../src/queue/push-signal.ts";
import { ScheduleStore } from "../src/store/schedule-store.ts";
import { Receiver } from "./receiver.ts";

const { server, redis } = await redisForFile();
let prefixes = 0;
const HOUR = 3_600_000;
const TO = { mergeKey: "report", method: "POST", url: "https://example.com/report" };
const HOURLY: Schedule = { destination: TO, body: '{"n":1}', everyMs: HOUR };

function fresh() {
  prefixes += 1;
  const queue = new MergeQueue(redis, { prefix: `s${prefixes}` });
  const schedules = new Schedules(queue, new AddressGuard(["loopback"]));
  return { queue, schedules, inspector: new Inspector(queue) };
}

/** Sets the time of a schedule, as if no scheduler had run for a while. */
async function makeDue(queue: MergeQueue, id: string, due: number): Promise<void> {
  await server.command("ZADD", queue.keys.schedules, String(due), id);
  await server.command("PUBLISH", queue.keys.scheduleChannel, "change");
}

async function ids(inspector: Inspector): Promise<readonly string[]> {
  const { oldest } = await inspector.peek(keyOf(TO, ""));
  return oldest.map(({ id }) => id);
}

test("five schedulers push each run once, and the missed ones are made up for by one", async () => {
  const { queue, schedules, inspector } = fresh();
  await queue.push(keyOf(TO, ""), "0", { at: Date.now() + HOUR }); // so that nothing is fetched
  const { nextAt = 0 } = await schedules.set("hourly", HOURLY);
  const ran: string[] = [];
  const all = Array.from({ length: 5 }, () => new Scheduler(queue));
  for (const each of all) each.on("ran", (id, { id: item }) => ran.push(`${id} ${item}`));
  await Promise.all(all.map((each) => each.start()));
  const due = nextAt - 10 * HOUR;
  await makeDue(queue, "hourly", due);
  await eventually(() => expect(ran).toEqual([`hourly hourly@${due}`]));
  await makeDue(queue, "hourly", due + 1);
  await eventually(() => expect(ran).toHaveLength(2));
  await Promise.all(all.map((each) => each.close()));
  expect((await ids(inspector)).slice(1)).toEqual([`hourly@${due}`, `hourly@${due + 1}`]);
  expect(await schedules.get("hourly")).toMatchObject({
    runs: 2,
    lastAt: due + 1,
    state: "active",
  });
  expect((await schedules.get("hourly")).nextAt).toBeGreaterThanOrEqual(nextAt);
});

test("a run is delivered by an HttpDispatcher, with its options, and names the schedule and its time", async () => {
  const { queue, schedules } = fresh();
  await using receiver = await Receiver.start();
  await using _dispatcher = await new HttpDispatcher(queue, { allow: ["loopback"] }).start();
  const { nextAt = 0 } = await schedules.set("-weird.id:1", {
    destination: { mergeKey: "-one", url: receiver.url() },
    body: Buffer.from("plain"),
    contentType: "text/plain",
    request: { headers: { "x-tenant": "7" } },
    cron: "0 9 * * 1",
    limit: 2,
    immediately: true,
  });
  await eventually(() => expect(receiver.requests).toHaveLength(1));
  expect(receiver.requests[0]).toMatchObject({ method: "POST", body: "plain" });
  expect(receiver.requests[0]?.headers).toMatchObject({
    "content-type": "text/plain",
    "webhook-items": `-weird.id:1@${nextAt}`,
    "x-tenant": "7",
  });
  await eventually(async () => {
    expect(await schedules.get("-weird.id:1")).toMatchObject({ runs: 1, state: "active" });
  });
  await makeDue(queue, "-weird.id:1", 1_000);
  await eventually(() => expect(receiver.requests).toHaveLength(2));
  expect(await schedules.get("-weird.id:1")).toMatchObject({
    ...{ runs: 2, state: "ended", nextAt: undefined },
  });
});

test("after a run it waits for the next one, not for a wake-up", async () => {
  const { queue, schedules } = fresh();
  await schedules.set("second", { ...HOURLY, everyMs: 1_000 });
  const waits: number[] = [];
  const { wait } = PushSignal.prototype;
  PushSignal.prototype.wait = function (seen, timeoutMs, signal) {
    waits.push(timeoutMs);
    return wait.call(this, seen, timeoutMs, signal);
  };
  try {
    await using scheduler = new Scheduler(queue);
    let runs = 0;
    scheduler.on("ran", () => {
      runs += 1;
    });
    await scheduler.start();
    await eventually(() => expect(runs).toBe(2), { withinMs: 30_000 });
  } finally {
    PushSignal.prototype.wait = wait;
  }
  expect(Math.max(...waits)).toBeLessThanOrEqual(1_000);
}, 60_000);

test("a run that is too late is skipped", async () => {
  const { queue, schedules, inspector } = fresh();
  await schedules.set("hourly", { ...HOURLY, maxLateMs: 60_000 });
  await using scheduler = new Scheduler(queue);
  const skipped: number[] = [];
  scheduler.on("skipped", (_id, { lateMs }) => skipped.push(lateMs));
  await scheduler.start();
  await makeDue(queue, "hourly", 1_000);
  await eventually(() => expect(skipped).toHaveLength(1));
  const { error, runs, nextAt } = await schedules.get("hourly");
  expect({ runs, error }).toEqual({ runs: 0, error: expect.stringContaining("skipped") });
  expect(nextAt).toBeGreaterThan(Date.now() - HOUR);
  expect(await ids(inspector)).toEqual([]);
});

test("written again with the same times it goes on: paused, ended and overdue stay so", async () => {
  const { queue, schedules } = fresh();
  const limited = { ...HOURLY, limit: 3 };
  await schedules.set("hourly", limited);
  await makeDue(queue, "hourly", 5_000);
  expect(await schedules.set("hourly", { ...limited, body: "2" })).toMatchObject({ nextAt: 5_000 });
  await schedules.pause("hourly");
  expect(await schedules.set("hourly", limited)).toMatchObject({ state: "paused" });
  const other = await schedules.set("hourly", { ...limited, everyMs: 2 * HOUR });
  expect(other).toMatchObject({ state: "paused", nextAt: undefined, runs: 0 });
  await schedules.resume("hourly");
  expect(await schedules.get("hourly")).toMatchObject({ state: "active" });
  await server.command("HSET", queue.keys.schedule("hourly"), "state", "ended");
  await server.command("ZADD", queue.keys.schedules, "inf", "hourly");
  const same = { ...limited, everyMs: 2 * HOUR };
  expect(await schedules.set("hourly", same)).toMatchObject({ state: "ended", nextAt: undefined });
  expect(await schedules.set("hourly", limited)).toMatchObject({ state: "active" });
});

test("a paused schedule does not run, and its missed runs are not made up for", async () => {
  const { queue, schedules, inspector } = fresh();
  await schedules.set("hourly", HOURLY);
  await makeDue(queue, "hourly", 5_000);
  await schedules.pause("hourly");
  await schedules.pause("hourly");
  await schedules.set("other", { ...HOURLY, immediately: true });
  await using scheduler = new Scheduler(queue);
  const ran: string[] = [];
  scheduler.on("ran", (id) => ran.push(id));
  await scheduler.start();
  await eventually(() => expect(ran).toEqual(["other"]));
  const now = await inspector.now();
  await schedules.resume("hourly");
  await schedules.resume("hourly");
  expect((await schedules.get("hourly")).nextAt).toBeGreaterThan(now - 1);
  expect((await schedules.list()).items.map(({ id }) => id)).toEqual(["hourly", "other"]);
  expect(await schedules.remove("hourly")).toBe(true);
  expect(await schedules.remove("hourly")).toBe(false);
  await expect(schedules.get("hourly")).rejects.toMatchObject({ code: "UNKNOWN_SCHEDULE" });
  await expect(schedules.pause("hourly")).rejects.toMatchObject({ code: "UNKNOWN_SCHEDULE" });
  await expect(schedules.resume("hourly")).rejects.toMatchObject({ code: "UNKNOWN_SCHEDULE" });
  expect(await server.command("EXISTS", queue.keys.schedule("hourly"))).toBe(0);
});

test("a schedule that changes between reading and pushing does not push its old item", async () => {
  const { queue, schedules, inspector } = fresh();
  await schedules.set("hourly", HOURLY);
  await makeDue(queue, "hourly", 5_000);
  const read = ScheduleStore.prototype.read;
  let changed = false;
  ScheduleStore.prototype.read = async function (id) {
    const stored = await read.call(this, id);
    if (!changed) {
      changed = true;
      await schedules.set("hourly", { ...HOURLY, body: '"new"' });
    }
    return stored;
  };
  try {
    await using scheduler = new Scheduler(queue);
    await scheduler.start();
    await eventually(async () => expect(await ids(inspector)).toHaveLength(1));
  } finally {
    ScheduleStore.prototype.read = read;
  }
  const { oldest } = await inspector.peek(keyOf(TO, ""));
  expect(oldest.map(({ body }) => String(body))).toEqual(['"new"']);
});

test("bad schedules are refused and change nothing", async () => {
  const { queue, schedules } = fresh();
  for (const id of ["", "a b", "x".repeat(129), "a/b", 7 as never]) {
    await expect(schedules.set(id, HOURLY)).rejects.toMatchObject({ code: "INVALID_NAME" });
  }
  const never = { ...HOURLY, endAt: 1_000 };
  await expect(schedules.set("x", never)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  const blocked = { ...HOURLY, destination: { mergeKey: "k", url: "http://169.254.169.254/" } };
  await expect(schedules.set("x", blocked)).rejects.toMatchObject({ code: "BLOCKED_ENDPOINT" });
  const callback = { ...HOURLY, request: { callback: "http://10.0.0.1/" } };
  await expect(schedules.set("x", callback)).rejects.toMatchObject({ code: "BLOCKED_ENDPOINT" });
  expect(await server.command("KEYS", `${queue.keys.prefix}:*`)).toEqual([]);
});

test("schedules that cannot be read or pushed do not stop the others, and say why", async () => {
  const { queue, schedules, inspector } = fresh();
  await server.command("HSET", queue.keys.schedule("odd"), "schedule", "{}", "revision", "1");
  await server.command("SET", queue.keys.schedule("wrong"), "a string");
  await schedules.set("blocked", {
    ...HOURLY,
    destination: { mergeKey: "blocked", url: "https://example.com/" },
  });
  const other = keyOf({ mergeKey: "blocked", method: "POST", url: "https://example.com/" }, "");
  await server.command("SET", queue.keys.queue(other), "no list");
  await schedules.set("good", HOURLY);
  for (const id of ["odd", "gone", "wrong", "blocked", "good"]) await makeDue(queue, id, 5_000);
  await using scheduler = new Scheduler(queue);
  const errors: unknown[] = [];
  scheduler.on("error", (error) => errors.push(error));
  await scheduler.start();
  await eventually(async () => expect(await ids(inspector)).toEqual(["good@5000"]));
  await eventually(async () => {
    expect(await schedules.get("blocked")).toMatchObject({
      error: expect.stringContaining("WRONGTYPE"),
      runs: 0,
      state: "active",
    });
  });
  expect(await schedules.get("odd")).toMatchObject({ schedule: undefined, state: "ended" });
  expect(errors).not.toEqual([]);
  await eventually(async () => {
    expect(await schedules.get("wrong")).toMatchObject({ schedule: undefined, nextAt: undefined });
  });
  expect((await schedules.list()).items).toHaveLength(5);
  expect(await schedules.remove("wrong")).toBe(true);
});

test("at an interval they go on when the clock was set back; times of the day and of the start stay", async () => {
  const { queue, schedules } = fresh();
  const later = Math.ceil(Date.now() / HOUR + 24) * HOUR;
  await schedules.set("every", HOURLY);
  await schedules.set("cron", { destination: TO, body: "1", cron: "0 * * * *" });
  await schedules.set("start", { ...HOURLY, startAt: later });
  const nextAt = async () => (await schedules.list()).items.map(({ id, nextAt }) => [id, nextAt]);
  // A scheduler that starts finds times that were written a day ahead.
  for (const id of ["every", "cron"]) {
    await server.command("ZADD", queue.keys.schedules, String(later), id);
  }
  const store = new ScheduleStore(redis, queue.keys);
  const next = (now: number) => Math.floor(now / HOUR + 1) * HOUR;
  const before = next(await store.now());
  await using _ = await new Scheduler(queue).start();
  const isNext = expect.toSatisfy((at) => at === before || at === before + HOUR);
  await eventually(async () => {
    expect((await nextAt()).sort()).toEqual([
      ["cron", later],
      ["every", isNext],
      ["start", later],
    ]);
  });
  // A running scheduler sees the clock go back.
  const ahead = await store.now();
  const clock = vi.spyOn(ScheduleStore.prototype, "now").mockResolvedValue(ahead + HOUR / 2);
  await makeDue(queue, "every", later);
  await eventually(() => expect(clock).toHaveBeenCalled());
  clock.mockRestore();
  await eventually(async () => {
    await server.command("PUBLISH", queue.keys.scheduleChannel, "change");
    expect((await schedules.get("every")).nextAt).toEqual(isNext);
  });
});

test("a foreign time that is not a number is never due, and the others run", async () => {
  const { queue, schedules, inspector } = fresh();
  await schedules.set("odd", HOURLY);
  await schedules.set("good", HOURLY);
  for (const id of ["odd", "foreign"]) {
    await server.command("ZADD", queue.keys.schedules, "-inf", id);
  }
  await makeDue(queue, "good", 5_000);
  await using scheduler = await new Scheduler(queue).start();
  await eventually(async () => expect(await ids(inspector)).toEqual(["good@5000"]));
  expect(scheduler.state).toBe("running");
  const planned = await new ScheduleStore(redis, queue.keys).planned(10);
  expect(planned.map(({ id }) => id)).toEqual(["good"]);
});

test("schedules survive a restart of Redis and of the scheduler, and a full Redis only delays them", async () => {
  await using own = await startRedis({ appendonly: true });
  await using client = await connect(own.url);
  const queue = new MergeQueue(client, { prefix: "p" });
  const schedules = new Schedules(queue, new AddressGuard());
  await schedules.set("hourly", HOURLY);
  await own.kill9();
  await own.start();
  await eventually(async () => expect(await schedules.get("hourly")).toMatchObject({ runs: 0 }));
  await own.command("ZADD", queue.keys.schedules, "5000", "hourly");
  await own.command("CONFIG", "SET", "maxmemory", "1");
  const scheduler = await new Scheduler(queue).start();
  await eventually(async () => {
    expect((await schedules.get("hourly")).error).toContain("memory");
  });
  await own.command("CONFIG", "SET", "maxmemory", "0");
  await scheduler.close();
  await own.command("ZADD", queue.keys.schedules, "5000", "hourly");
  await using _next = await new Scheduler(queue).start();
  await eventually(async () => {
    expect(await schedules.get("hourly")).toMatchObject({ runs: 1, error: undefined });
  });
  expect(await ids(new Inspector(queue))).toEqual(["hourly@5000"]);
});

test("no more than 10,000 schedules are kept", async () => {
  const { queue, schedules } = fresh();
  const many = Array.from({ length: 10_000 }, (_, i) => ["inf", `x${i}`]).flat();
  await server.command("ZADD", queue.keys.schedules, ...many);
  await expect(schedules.set("y", HOURLY)).rejects.toMatchObject({ code: "TOO_MANY_SCHEDULES" });
  await schedules.set("x1", HOURLY);
  expect(await schedules.remove("x2")).toBe(true);
  await schedules.set("y", HOURLY);
});
