import { describe, expect, test } from "vitest";
import type { Schedule } from "../src/index.ts";
import {
  checkSchedule,
  decodeSchedule,
  dueAfter,
  encodeSchedule,
  firstDue,
  timesText,
} from "../src/schedule/schedule.ts";

const at = (iso: string) => Date.parse(iso);
const BASE: Schedule = {
  destination: { mergeKey: "report", url: "https://example.com/report" },
  body: "{}",
  everyMs: 60_000,
};

describe("times", () => {
  test("every Monday at nine, by the clock of its time zone, also across a change of it", () => {
    const monday = { cron: "0 9 * * 1", timeZone: "Europe/Berlin" };
    expect(dueAfter(monday, at("2026-03-25T00:00:00Z"))).toBe(at("2026-03-30T07:00:00Z"));
    expect(dueAfter(monday, at("2026-03-23T07:59:59Z"))).toBe(at("2026-03-23T08:00:00Z"));
    expect(dueAfter(monday, at("2026-03-23T08:00:00Z"))).toBe(at("2026-03-30T07:00:00Z"));
  });

  test("an interval counts from startAt and ends with endAt", () => {
    const times = { everyMs: 10_000, startAt: 5_000, endAt: 25_000 };
    expect(dueAfter(times, 0)).toBe(5_000);
    expect(dueAfter(times, 5_000)).toBe(15_000);
    expect(dueAfter(times, 15_000)).toBe(25_000);
    expect(dueAfter(times, 25_000)).toBeUndefined();
  });

  test("immediately is due at once, but not before startAt or after endAt", () => {
    const every = { everyMs: 60_000, immediately: true };
    expect(firstDue(every, 1_234)).toBe(1_234);
    expect(firstDue({ ...every, startAt: 5_000 }, 1_234)).toBe(5_000);
    expect(firstDue({ ...every, endAt: 1_000 }, 1_234)).toBeUndefined();
  });

  test("only the times decide whether two schedules have the same times", () => {
    expect(timesText({ ...BASE, timeZone: "UTC" })).toBe(
      timesText({ ...BASE, body: "1" } as never),
    );
    expect(timesText({ everyMs: 1_000 })).not.toBe(timesText({ everyMs: 2_000 }));
  });
});

test("a schedule is stored and read as it was, also one whose body is no UTF-8", () => {
  const destination = { mergeKey: "-one", url: "https://example.com" };
  const body = Buffer.from([0, 255, 1]);
  const checked = checkSchedule({ ...BASE, destination, body, contentType: "image/png" });
  expect(decodeSchedule(encodeSchedule(checked))).toEqual(checked);
  expect(checked.destination).toEqual({
    mergeKey: "-one",
    method: "POST",
    url: "https://example.com/",
  });
  for (const text of ["", "null", "[]", "1", '{"body":1}', encodeSchedule(checked).slice(1)]) {
    expect(decodeSchedule(text)).toBeUndefined();
  }
});

const WRONG: Readonly<Record<string, object>> = {
  "neither cron nor everyMs": { everyMs: undefined },
  "both cron and everyMs": { cron: "* * * * *" },
  "a cron that is none": { everyMs: undefined, cron: "every monday" },
  "a time zone that is none": { everyMs: undefined, cron: "@daily", timeZone: "Mars/Base" },
  "a cron of another type": { everyMs: undefined, cron: 7 },
  "an interval below a second": { everyMs: 999 },
  "an interval that is no number": { everyMs: Number.NaN },
  "a limit of 0": { limit: 0 },
  "an endless startAt": { startAt: Number.POSITIVE_INFINITY },
  "a negative maxLateMs": { maxLateMs: -1 },
  "an unknown name": { interval: 1 },
  "no destination": { destination: undefined },
  "a destination without a scheme": { destination: { mergeKey: "k", url: "example.com" } },
  "a merged body that is no JSON": { body: "{" },
  "a body of another type": { body: 1 },
  "a body that is too long": { body: `"${"x".repeat(262_144)}"` },
  "a content type of a merged body": { contentType: "text/plain" },
  "another update": { update: "never" },
  "a request with no attempts": { request: { attempts: 0 } },
};

test.each(Object.entries(WRONG))("%s is refused", (_, wrong) => {
  expect(() => checkSchedule({ ...BASE, ...wrong } as Schedule)).toThrow(
    expect.objectContaining({ code: "INVALID_ARGUMENT" }),
  );
});
