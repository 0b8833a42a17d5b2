import { InvalidOptionError } from "@ropeway/core";
import { dueAfter } from "@ropeway/core/internal";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it, vi } from "vitest";
import { type JobContext, type JobOptions, QueueEvents } from "../src/index.ts";
import { QueueStore, queueKeys } from "../src/internal.ts";
import { Scheduler } from "../src/schedule/scheduler.ts";
import { ScheduleStore } from "../src/store/schedule-store.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const iso = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());

function schedulerOf(queue: string) {
  const store = new ScheduleStore(new QueueStore(one.redis, "ropeway:jobs", queue));
  return { scheduler: new Scheduler(store), store };
}

const fail = (error: unknown) => {
  throw error;
};

/** The next `n` due times after a moment. */
function dues(schedule: Parameters<typeof dueAfter>[0], after: string, n: number): unknown[] {
  const found: unknown[] = [];
  for (let at = Date.parse(after); found.length < n; ) {
    const due = dueAfter(schedule, at);
    found.push(iso(due));
    if (due === undefined) break;
    at = due;
  }
  return found;
}

describe("many schedules", () => {
  it("are checked when the next one is due, not all the time", async () => {
    const queue = one.queue();
    const { scheduler } = schedulerOf(queue.name);
    const startAt = Date.now() + 3_600_000;
    const set = (id: number) =>
      queue.setSchedule(`s${id}`, { everyMs: 60_000, startAt, name: "n" });
    await Promise.all(Array.from({ length: 120 }, (_, id) => set(id)));
    expect(await scheduler.fireDue(fail)).toBeGreaterThan(60_000);
  });

  it("that are due together all run", async () => {
    const queue = one.queue();
    const { scheduler } = schedulerOf(queue.name);
    const schedule = { everyMs: 3_600_000, name: "n", immediately: true };
    const set = (id: number) => queue.setSchedule(`s${id}`, schedule);
    await Promise.all(Array.from({ length: 250 }, (_, id) => set(id)));
    let rounds = 1;
    while ((await scheduler.fireDue(fail)) === 0) rounds += 1;
    expect(await queue.counts()).toMatchObject({ waiting: 250 });
    expect(rounds).toBe(3);
  });

  it("that all fail are tried again after a pause", async () => {
    const queue = one.queue();
    const { scheduler } = schedulerOf(queue.name);
    const schedule = { everyMs: 3_600_000, name: "n", immediately: true };
    const set = (id: number) => queue.setSchedule(`s${id}`, schedule);
    await Promise.all(Array.from({ length: 120 }, (_, id) => set(id)));
    await one.server.command("CONFIG", "SET", "maxmemory", "1");
    const pause = await scheduler.fireDue(() => {});
    await one.server.command("CONFIG", "SET", "maxmemory", "0");
    expect(pause).toBe(1_000);
    while ((await scheduler.fireDue(fail)) === 0);
    expect(await queue.counts()).toMatchObject({ waiting: 120 });
  });
});

describe("a schedule that is set again with the same times", () => {
  it("has no other run at once, and none beyond its limit", async () => {
    const queue = one.queue();
    const schedule = { everyMs: 3_600_000, name: "n", immediately: true };
    const { plan } = queueKeys("ropeway:jobs", queue.name);
    const { scheduler } = schedulerOf(queue.name);
    for (let start = 0; start < 3; start++) {
      await queue.setSchedule("limited", { ...schedule, limit: 1 });
      await queue.setSchedule("endless", schedule);
      await scheduler.fireDue(fail);
    }
    expect(await queue.counts()).toMatchObject({ waiting: 2 });
    expect(await one.redis.send(["ZRANGE", plan, "0", "-1"])).toEqual(["endless"]);
    await queue.setSchedule("limited", { ...schedule, limit: 2 });
    await scheduler.fireDue(fail);
    expect(await queue.counts()).toMatchObject({ waiting: 3 });
  });

  it("has no other run at once after the last of its times", async () => {
    const queue = one.queue();
    const { scheduler } = schedulerOf(queue.name);
    const startAt = Date.now() - 1_000;
    const times = { everyMs: 3_600_000, startAt, endAt: startAt + 3_500_000 };
    for (let start = 0; start < 3; start++) {
      await queue.setSchedule("once", { ...times, name: "n", immediately: true });
      await scheduler.fireDue(fail);
    }
    expect(await queue.counts()).toMatchObject({ waiting: 1 });
    const [once] = await queue.schedules();
    expect(once).toMatchObject({ id: "once", runs: 1 });
    expect(once?.nextAt).toBeUndefined();
  });
});

describe("due times", () => {
  it("follow the wall clock of their time zone across both changes of daylight saving", () => {
    const schedule = { name: "n", cron: "30 9 * * *", timeZone: "Europe/Berlin" };
    expect(dues(schedule, "2027-03-26T12:00:00Z", 3)).toEqual([
      "2027-03-27T08:30:00.000Z",
      "2027-03-28T07:30:00.000Z",
      "2027-03-29T07:30:00.000Z",
    ]);
    expect(dues(schedule, "2027-10-29T12:00:00Z", 3)).toEqual([
      "2027-10-30T07:30:00.000Z",
      "2027-10-31T08:30:00.000Z",
      "2027-11-01T08:30:00.000Z",
    ]);
  });

  it("in the hour that a change repeats or skips come once a day", () => {
    const schedule = { name: "n", cron: "30 2 * * *", timeZone: "America/New_York" };
    for (const [from, to] of [
      ["2027-03-12T12:00:00Z", "2027-03-16T12:00:00Z"],
      ["2027-11-05T12:00:00Z", "2027-11-09T12:00:00Z"],
    ] as const) {
      const found = dues(schedule, from, 10).filter((due) => String(due) < to);
      expect(found).toHaveLength(4);
    }
  });

  it("at an interval are the same for everybody, and end when they should", () => {
    expect(dues({ everyMs: 60_000 }, "2027-01-01T00:00:10Z", 2)).toEqual([
      "2027-01-01T00:01:00.000Z",
      "2027-01-01T00:02:00.000Z",
    ]);
    const endAt = Date.parse("2027-01-01T00:01:30Z");
    expect(dues({ everyMs: 60_000, endAt }, "2027-01-01T00:00:10Z", 5)).toEqual([
      "2027-01-01T00:01:00.000Z",
      undefined,
    ]);
  });
});

describe("schedules", () => {
  it("fire once per due time, however many workers there are", async () => {
    const queue = one.queue();
    const seen: string[] = [];
    for (let i = 0; i < 4; i++) {
      one.worker(queue, (job: JobContext) => void seen.push(job.id));
    }
    await queue.setSchedule("tick", { everyMs: 100, name: "tick", data: 7 });
    await eventually(() => expect(seen.length).toBeGreaterThan(5));
    await queue.removeSchedule("tick");
    expect(new Set(seen).size).toBe(seen.length);
    expect(await queue.schedules()).toEqual([]);
    expect(await queue.removeSchedule("tick")).toBe(false);
    const { schedules, plan } = queueKeys("ropeway:jobs", queue.name);
    expect(await one.redis.send(["EXISTS", schedules, plan])).toBe(0);
  });

  it("are replaced by id and listed with their next time", async () => {
    const queue = one.queue();
    await queue.setSchedule("nightly", { cron: "0 3 * * *", name: "old" });
    await queue.setSchedule("nightly", { cron: "@daily", timeZone: "Asia/Tokyo", name: "report" });
    const [schedule, ...others] = await queue.schedules();
    expect(others).toEqual([]);
    expect(schedule).toMatchObject({ id: "nightly", name: "report", timeZone: "Asia/Tokyo" });
    expect(schedule?.nextAt).toBeGreaterThan(Date.now());
  });

  it("skip a run while the one before is unfinished, if told so", async () => {
    const queue = one.queue();
    let running = 0;
    let most = 0;
    let runs = 0;
    one.worker(
      queue,
      async () => {
        most = Math.max(most, ++running);
        await new Promise((resolve) => setTimeout(resolve, 120));
        running--;
        runs++;
      },
      { concurrency: 5 },
    );
    await queue.setSchedule("slow", { everyMs: 30, name: "slow", noOverlap: true });
    await eventually(() => expect(runs).toBeGreaterThanOrEqual(3));
    await queue.removeSchedule("slow");
    expect(most).toBe(1);
  });

  it("that can never be due are refused", async () => {
    const queue = one.queue();
    await expect(queue.setSchedule("x", { name: "n" })).rejects.toThrow(/cron/);
    await expect(queue.setSchedule("x", { name: "n", cron: "61 * * * *" })).rejects.toThrow(
      /61 \* \* \* \*/,
    );
    const timeZone = "Mars/Olympus";
    await expect(
      queue.setSchedule("x", { name: "n", cron: "* * * * *", timeZone }),
    ).rejects.toThrow(/Mars/);
    await expect(queue.setSchedule("x", { name: "n", everyMs: 0 })).rejects.toThrow(/everyMs is 0/);
  });

  it("fire on time beside others", async () => {
    const queue = one.queue();
    let fast = 0;
    one.worker(queue, (job: JobContext) => void (job.name === "fast" && fast++));
    await queue.setSchedule("nightly", { cron: "0 3 * * *", name: "nightly" });
    await queue.setSchedule("fast", { everyMs: 200, name: "fast" });
    await eventually(() => expect(fast).toBeGreaterThan(5), { withinMs: 4_000 });
    await queue.removeSchedule("fast");
  });

  it("make up for missed runs by one, also if they are set again at start-up", async () => {
    const queue = one.queue();
    const { plan } = queueKeys("ropeway:jobs", queue.name);
    const schedule = { everyMs: 3_600_000, name: "hourly" };
    await queue.setSchedule("h", schedule);
    await one.redis.send(["ZADD", plan, String(Date.now() - 7_200_000), "h"]); // two runs were missed
    await queue.setSchedule("h", schedule);
    const seen: string[] = [];
    one.worker(queue, (job: JobContext) => void seen.push(job.id));
    await eventually(() => expect(seen).toHaveLength(1));
    const [view] = await queue.schedules();
    expect(view?.nextAt).toBeGreaterThan(Date.now());
    await queue.setSchedule("h", { ...schedule, everyMs: 7_200_000 }); // other times: nothing is overdue
    expect((await queue.schedules())[0]?.nextAt).toBeGreaterThan(Date.now());
  });

  it("end after their limit, run at once if asked, and keep to startAt and endAt", async () => {
    const queue = one.queue();
    const seen: string[] = [];
    one.worker(queue, (job: JobContext) => void seen.push(job.name));
    await queue.setSchedule("three", { everyMs: 50, name: "three", limit: 3 });
    await queue.setSchedule("now", { everyMs: 3_600_000, name: "now", immediately: true });
    const startAt = Date.now() + 3_600_000;
    await queue.setSchedule("later", { everyMs: 10, name: "later", startAt });
    await queue.setSchedule("over", { everyMs: 10, name: "over", endAt: 1_000 });
    await eventually(() => expect(seen.filter((name) => name === "three")).toHaveLength(3));
    await eventually(() => expect(seen).toContain("now"));
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(seen.filter((name) => name === "three")).toHaveLength(3);
    expect(seen).not.toContain("later");
    const views = await queue.schedules();
    expect(views.map(({ id, runs }) => [id, runs])).toEqual([
      ["later", 0],
      ["now", 1],
      ["three", 3],
    ]);
    expect(views[0]?.nextAt).toBeGreaterThanOrEqual(startAt);
    expect(views[2]?.nextAt).toBeUndefined();
  });

  it("fire once for a due time that two workers saw", async () => {
    const queue = one.queue();
    const { plan } = queueKeys("ropeway:jobs", queue.name);
    const { store } = schedulerOf(queue.name);
    await queue.setSchedule("s", { everyMs: 3_600_000, name: "n" });
    await one.redis.send(["ZADD", plan, "5000", "s"]);
    const next = Date.now() + 3_600_000;
    const job = { job: "s@5000", where: "", record: ";0;0;\nn\n" };
    const firing = { id: "s", due: 5_000, next, noOverlap: false, limit: undefined, ...job };
    await Promise.all([store.fire(firing), store.fire(firing)]);
    expect(await queue.counts()).toMatchObject({ waiting: 1 });
  });

  it("count no run that was skipped towards their limit", async () => {
    const queue = one.queue();
    const { plan } = queueKeys("ropeway:jobs", queue.name);
    const { scheduler } = schedulerOf(queue.name);
    await queue.setSchedule("s", { everyMs: 3_600_000, name: "n", limit: 2, noOverlap: true });
    const fire = async (at: number) => {
      await one.redis.send(["ZADD", plan, String(at), "s"]);
      await scheduler.fireDue(fail);
      return (await queue.schedules())[0];
    };
    expect(await fire(1_000)).toMatchObject({ runs: 1 });
    const skipped = await fire(2_000); // the first job has not ended
    expect(skipped).toMatchObject({ runs: 1 });
    expect(skipped?.nextAt).toBeGreaterThan(Date.now());
    await queue.drain();
    const last = await fire(3_000);
    expect(last).toMatchObject({ runs: 2 });
    expect(last?.nextAt).toBeUndefined();
  });

  it("at an interval go on when the clock was set back; times of the day stay", async () => {
    const queue = one.queue();
    const { plan } = queueKeys("ropeway:jobs", queue.name);
    const { scheduler, store } = schedulerOf(queue.name);
    await queue.setSchedule("every", { everyMs: 60_000, name: "n" });
    await queue.setSchedule("cron", { cron: "* * * * *", name: "n" });
    const hour = 3_600_000;
    const later = Math.ceil((Date.now() + hour) / 60_000) * 60_000;
    // A scheduler that starts finds due times that were written an hour ahead.
    for (const id of ["every", "cron"]) await one.redis.send(["ZADD", plan, String(later), id]);
    await scheduler.fireDue(fail);
    const nextAt = async () =>
      (await queue.schedules()).map((schedule) => Number(schedule.nextAt) - Date.now() > hour / 2);
    expect(await nextAt()).toEqual([true, false]);
    // A running scheduler sees the clock go back.
    const now = vi.spyOn(store, "now").mockResolvedValueOnce(Date.now() + hour);
    await scheduler.fireDue(fail);
    await one.redis.send(["ZADD", plan, String(later), "every"]);
    now.mockRestore();
    await scheduler.fireDue(fail);
    expect((await queue.schedules()).find(({ id }) => id === "every")?.nextAt).toBeLessThan(later);
  });

  it("run again at a time that the clock repeats, although the first run is kept", async () => {
    const queue = one.queue();
    const { plan } = queueKeys("ropeway:jobs", queue.name);
    const { scheduler } = schedulerOf(queue.name);
    await queue.setSchedule("s", { everyMs: 3_600_000, name: "n" });
    for (let round = 0; round < 2; round++) {
      await one.redis.send(["ZADD", plan, "5000", "s"]);
      await scheduler.fireDue(fail);
    }
    const ids = (await queue.search({ state: "waiting" })).items.map(({ id }) => id);
    expect(ids).toEqual(["s@5000", "s@5000#1"]);
  });

  it("that can never be due are refused", async () => {
    const queue = one.queue();
    for (const cron of ["0 0 30 2 *", "2030-01-01T00:00:00", "* * *"]) {
      await expect(queue.setSchedule("s", { cron, name: "n" })).rejects.toThrow(InvalidOptionError);
    }
    const timeZone = "Mars/Base";
    await expect(queue.setSchedule("s", { everyMs: 5, timeZone, name: "n" })).rejects.toThrow(
      /timeZone/,
    );
  });

  it("that cannot be read are reported and do not stop the others", async () => {
    const queue = one.queue();
    const { plan, schedules } = queueKeys("ropeway:jobs", queue.name);
    for (const [i, json] of ["no JSON", "{}", '{"cron":"x","name":"n"}'].entries()) {
      await one.redis.send(["HSET", schedules, `sbad${i}`, json]);
      await one.redis.send(["ZADD", plan, "1", `bad${i}`]);
    }
    await queue.setSchedule("good", { everyMs: 50, name: "good" });
    const errors: unknown[] = [];
    let runs = 0;
    one.worker(queue, () => void runs++).on("error", (error) => void errors.push(error));
    await eventually(() => expect(runs).toBeGreaterThan(1));
    expect(errors).toHaveLength(3);
    expect((await queue.schedules()).map(({ id, malformed }) => [id, malformed])).toEqual([
      ["bad0", true],
      ["bad1", true],
      ["bad2", true],
      ["good", undefined],
    ]);
    await queue.removeSchedule("good");
  });

  it("have the queue's defaults, and their jobs are events like all others", async () => {
    const queue = one.queue({ defaults: { attempts: 3, group: "g" } });
    const events = one.keep(await new QueueEvents(one.redis, queue.name).start());
    const added: string[] = [];
    events.on("added", (event) => void added.push(event.name));
    const attempts: number[] = [];
    one.worker(queue, (job: JobContext) => void attempts.push(job.maxAttempts));
    await queue.setSchedule("s", { everyMs: 50, name: "scheduled", limit: 1 });
    await eventually(() => expect(attempts).toEqual([3]));
    await eventually(() => expect(added).toEqual(["scheduled"]));
  });

  it("with options that do not exist are refused", async () => {
    const queue = one.queue();
    const typo = { everyMs: 50, name: "n", limt: 1 } as { everyMs: number; name: string };
    await expect(queue.setSchedule("s", typo)).rejects.toThrow(/limt/);
    for (const limit of [0, -1, 1.5, Number.NaN]) {
      await expect(queue.setSchedule("s", { everyMs: 50, name: "n", limit })).rejects.toThrow(
        /limit/,
      );
    }
  });

  it("obey all options of their jobs, and refuse those that a schedule decides itself", async () => {
    const queue = one.queue();
    const refused: JobOptions[] = [{ id: "x" }, { delayMs: 5 }, { runAt: 5 }, { dedupe: "k" }];
    for (const options of refused) {
      const set = queue.setSchedule("s", { everyMs: 50, name: "n", options });
      await expect(set).rejects.toThrow(InvalidOptionError);
    }
    expect(await queue.schedules()).toEqual([]);
    await queue.add("first");
    const options = { lifo: true, awaited: true };
    const times = { everyMs: 3_600_000, immediately: true };
    await queue.setSchedule("s", { ...times, name: "n", options });
    await schedulerOf(queue.name).scheduler.fireDue(fail);
    const { wait, awaited } = queueKeys("ropeway:jobs", queue.name);
    const [id] = (await one.redis.send(["LRANGE", wait, "0", "0"])) as string[];
    expect(id).toMatch(/^s@/);
    expect(await one.redis.send(["SMEMBERS", awaited])).toEqual([id]);
  });
});
