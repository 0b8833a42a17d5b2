import { expect, test } from "vitest";
import { isoTime, isoTimeOrEpoch } from "../src/http/iso-time.ts";

test("a time that no calendar has is no time, and the epoch where a time must be", () => {
  expect(isoTime(0)).toBe("1970-01-01T00:00:00.000Z");
  for (const odd of [undefined, null, Number.NaN, 1e18, Number.NEGATIVE_INFINITY]) {
    expect(isoTime(odd)).toBeNull();
  }
  expect(isoTimeOrEpoch(1e18)).toBe("1970-01-01T00:00:00.000Z");
});
