import { expect, test } from "vitest";
import { Pace } from "../src/pace.ts";

test("without a time limit every slice has the full length", () => {
  const pace = new Pace({ sliceMs: 150, endMs: undefined, retryMs: 0 }, 1_000_000);
  expect(pace.begin(999_999)).toBe(150);
  expect(pace.begin(1)).toBe(150);
});

test("with a time limit the remaining time, minus overhead, is divided among the slices", () => {
  let now = 0;
  const pace = new Pace({ sliceMs: 150, endMs: 10_000, retryMs: 0 }, 100, () => now);
  expect(pace.begin(50)).toBe(90);
  for (let slice = 0; slice < 500; slice++) pace.noteOverhead(40);
  now = 6_000;
  expect(pace.begin(25)).toBe(40);
  now = 60_000;
  expect(pace.begin(25)).toBe(30);
});

test("each scenario may use its share of the time for repetitions, and the rest of earlier shares", () => {
  const pace = new Pace({ sliceMs: 150, endMs: undefined, retryMs: 1000 }, 100);
  pace.begin(50);
  expect(pace.mayRepeat(300)).toBe(true);
  expect(pace.mayRepeat(300)).toBe(false);
  pace.begin(50);
  expect(pace.mayRepeat(700)).toBe(true);
  expect(pace.mayRepeat(1)).toBe(false);
});
