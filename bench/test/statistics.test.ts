import { expect, test } from "vitest";
import { median, percentile, rotated, spread } from "../src/statistics.ts";

test("the median is the middle value, or the mean of the two middle ones", () => {
  expect(median([9, 1, 5])).toBe(5);
  expect(median([4, 1, 3, 2])).toBe(2.5);
  expect(() => median([])).toThrow("the median needs at least 1 value");
});

test("a spread has the median, the minimum and the maximum", () => {
  expect(spread([3, 1, 2])).toEqual({ median: 2, min: 1, max: 3 });
  expect(spread([])).toBeUndefined();
});

test("a percentile is the value of the nearest rank", () => {
  const values = Float64Array.from({ length: 100 }, (_, index) => index + 1);
  expect(percentile(values, 50)).toBe(50);
  expect(percentile(values, 99)).toBe(99);
  expect(percentile(values, 100)).toBe(100);
  expect(percentile(Float64Array.of(7), 1)).toBe(7);
});

test("rotation puts each contender first once in as many rounds as there are contenders", () => {
  const first = [0, 1, 2].map((round) => rotated(["a", "b", "c"], round)[0]);
  expect(first).toEqual(["a", "b", "c"]);
  expect(rotated(["a", "b", "c"], 4)).toEqual(["b", "c", "a"]);
  expect(rotated([], 3)).toEqual([]);
});
