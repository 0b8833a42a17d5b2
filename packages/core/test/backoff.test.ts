import { expect, test } from "vitest";
import { Backoff, backoffDelay } from "../src/backoff.ts";

const curve = { baseMs: 100, maxMs: 1_000, jitter: 0 };

test("delays double up to the maximum", () => {
  const delays = [1, 2, 3, 4, 5, 60].map((attempt) => backoffDelay(attempt, curve));
  expect(delays).toEqual([100, 200, 400, 800, 1_000, 1_000]);
});

test("jitter takes away at most its part", () => {
  expect(backoffDelay(1, { ...curve, jitter: 0.5 }, () => 0)).toBe(100);
  expect(backoffDelay(1, { ...curve, jitter: 0.5 }, () => 1)).toBe(50);
});

test("a success starts the curve again", () => {
  const backoff = new Backoff(curve);
  expect([backoff.next(), backoff.next()]).toEqual([100, 200]);
  backoff.reset();
  expect(backoff.next()).toBe(100);
});
