import { expect, test } from "vitest";
import { durationOf, parseDuration } from "../src/duration.ts";

test.each([
  ["0", 0],
  ["1500", 1_500],
  ["500ms", 500],
  ["5s", 5_000],
  ["1.5s", 1_500],
  ["1.001s", 1_001],
  ["2m", 120_000],
  ["1.5h", 5_400_000],
  ["7d", 604_800_000],
  [" 5s ", 5_000],
])("%j is %i ms", (text, ms) => {
  expect(parseDuration(text)).toBe(ms);
});

test.each([
  "",
  "s",
  "5 s",
  "-5s",
  "+5s",
  "5S",
  "5sec",
  "1e3",
  "0.5",
  "0.1ms",
  "1s5",
  "NaN",
  "9".repeat(20),
])("%j is no duration", (text) => {
  expect(parseDuration(text)).toBeUndefined();
});

test("an option is named as the command line has it, with what it may be", () => {
  expect(durationOf({}, "olderThan")).toBeUndefined();
  expect(durationOf({ olderThan: "2m" }, "olderThan")).toBe(120_000);
  expect(() => durationOf({ olderThan: "soon" }, "olderThan")).toThrow(
    '--older-than is "soon", but must be a number of milliseconds, or a duration such as 500ms, 5s, 2m, 1h or 7d',
  );
  expect(() => durationOf({ every: "0s" }, "every", 1)).toThrow(
    /--every is "0s", .* of at least 1 ms$/,
  );
});
