import { describe, expect, test } from "vitest";
import { dueAfter, firstDue, type Recurrence, recurrenceProblem } from "../src/recurrence.ts";

const at = (iso: string) => Date.parse(iso);

describe("due times", () => {
  test("follow the clock of their time zone, also across a change of it", () => {
    const monday = { cron: "0 9 * * 1", timeZone: "Europe/Berlin" };
    expect(dueAfter(monday, at("2026-03-25T00:00:00Z"))).toBe(at("2026-03-30T07:00:00Z"));
    expect(dueAfter(monday, at("2026-03-23T07:59:59Z"))).toBe(at("2026-03-23T08:00:00Z"));
    expect(dueAfter(monday, at("2026-03-23T08:00:00Z"))).toBe(at("2026-03-30T07:00:00Z"));
  });

  test("of an interval count from startAt and end with endAt", () => {
    const times = { everyMs: 10_000, startAt: 5_000, endAt: 25_000 };
    expect(dueAfter(times, 0)).toBe(5_000);
    expect(dueAfter(times, 5_000)).toBe(15_000);
    expect(dueAfter(times, 15_000)).toBe(25_000);
    expect(dueAfter(times, 25_000)).toBeUndefined();
  });

  test("begin at once if asked for, but not before startAt or after endAt", () => {
    const every = { everyMs: 60_000, immediately: true };
    expect(firstDue(every, 1_234)).toBe(1_234);
    expect(firstDue({ ...every, startAt: 5_000 }, 1_234)).toBe(5_000);
    expect(firstDue({ ...every, endAt: 1_000 }, 1_234)).toBeUndefined();
    expect(firstDue({ ...every, immediately: false }, 1_234)).toBe(60_000);
  });
});

describe("a recurrence that can never be due is refused", () => {
  const wrong: Readonly<Record<string, [unknown, string]>> = {
    "neither cron nor everyMs": [{}, "cron"],
    "both cron and everyMs": [{ cron: "@daily", everyMs: 1_000 }, "cron"],
    "a pattern that is none": [{ cron: "every monday at nine o'clock" }, "cron"],
    "too few fields": [{ cron: "* * *" }, "cron"],
    "a date": [{ cron: "2030-01-01T00:00:00" }, "cron"],
    "a day that no year has": [{ cron: "0 0 30 2 *" }, "cron"],
    "a pattern of another type": [{ cron: 7 }, "cron"],
    "a pattern without end": [{ cron: "* ".repeat(200) }, "cron"],
    "an unknown time zone": [{ cron: "@daily", timeZone: "Mars/Base" }, "timeZone"],
    "an unknown time zone of an interval": [{ everyMs: 1_000, timeZone: "Mars/Base" }, "timeZone"],
    "an end before its start": [{ everyMs: 1_000, startAt: 2_000, endAt: 1_999 }, "endAt"],
    "a time zone of another type": [{ cron: "@daily", timeZone: 1 }, "timeZone"],
  };

  test.each(Object.entries(wrong))("%s", (_, [times, name]) => {
    expect(recurrenceProblem(times as Recurrence)?.name).toBe(name);
  });

  test.each([
    { cron: "*/5 * * * *" },
    { cron: " 0 0 3 * * 1-5 ", timeZone: "Asia/Tokyo" },
    { cron: "@hourly" },
    { cron: "0 0 29 2 *" },
    { everyMs: 1 },
    { everyMs: 1_000, startAt: 2_000, endAt: 2_000 },
    { everyMs: 1_000, endAt: 0 },
  ])("but not %o", (times) => {
    expect(recurrenceProblem(times)).toBeUndefined();
  });
});
