import { describe, expect, test } from "vitest";
import type { Schedule } from "../src/index.ts";
import {
  checkSchedule,
  decodeSchedule,
  encodeSchedule,
  timesText,
} from "../src/schedule/schedule.ts";

const BASE: Schedule = {
  destination: { mergeKey: "report", url: "https://example.com/report" },
  body: "{}",
  everyMs: 60_000,
};

describe("times", () => {
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
