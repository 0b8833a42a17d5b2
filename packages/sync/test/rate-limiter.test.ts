import { AbortedError } from "@ropeway/core";
import { expect, test } from "vitest";
import { RateLimiter } from "../src/rate-limiter.ts";

const NONE = { opsPerS: 0, bytesPerS: 0, latencyMs: 0 };

test.each([
  ["opsPerS", { ...NONE, opsPerS: 10 }, [100_000, 0]],
  ["bytesPerS", { ...NONE, bytesPerS: 10 }, [0, 100_000]],
] as const)(
  "%s makes the next batch wait, until the task ends",
  async (_, limits, [ops, bytes]) => {
    const stop = new AbortController();
    const limiter = new RateLimiter(limits, stop.signal);
    const waiting = limiter.admit(ops, bytes);
    expect(waiting).toBeInstanceOf(Promise);
    stop.abort();
    await expect(waiting).rejects.toBeInstanceOf(AbortedError);
  },
);

test("without a bound nothing waits", () => {
  const limiter = new RateLimiter(NONE, new AbortController().signal);
  limiter.observe(1_000_000);
  expect(limiter.admit(1_000_000, 1_000_000)).toBeUndefined();
});

test("a slow target makes the task slower, and a quick one faster again", async () => {
  const stop = new AbortController();
  const limiter = new RateLimiter({ ...NONE, latencyMs: 10 }, stop.signal);
  expect(limiter.admit(1, 1)).toBeUndefined();
  for (let i = 0; i < 20; i++) limiter.observe(11);
  const waiting = limiter.admit(1, 1);
  expect(waiting).toBeInstanceOf(Promise);
  stop.abort();
  await expect(waiting).rejects.toBeInstanceOf(AbortedError);
  for (let i = 0; i < 30; i++) limiter.observe(9);
  expect(limiter.admit(1, 1)).toBeUndefined();
});
