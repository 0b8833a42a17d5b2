import { expect, test } from "vitest";
import { retryAfterMs } from "../src/delivery/retry-after.ts";

const NOW = Date.parse("2026-01-01T00:00:00Z");

test.each([
  ["120", 120_000],
  ["0", 0],
  ["Thu, 01 Jan 2026 00:00:30 GMT", 30_000],
  ["Thu, 01 Jan 2020 00:00:00 GMT", 0],
  ["99999999", 86_400_000],
])("%s is understood and bounded", (header, ms) => {
  expect(retryAfterMs(header, NOW)).toBe(ms);
});

test.each([undefined, "", "soon", "-5"])("%s is ignored", (header) => {
  expect(retryAfterMs(header, NOW) ?? 0).toBe(0);
});
