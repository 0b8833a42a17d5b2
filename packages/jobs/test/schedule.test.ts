import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import type { JobContext } from "../src/index.ts";
import { dueAfter } from "../src/schedule/schedule.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const iso = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());

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
});
