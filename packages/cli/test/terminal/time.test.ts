import { expect, test } from "vitest";
import { withIsoTimes } from "../../src/terminal/time.ts";

test("times are ISO strings, and a number that no calendar has stays readable", () => {
  expect(withIsoTimes({ id: "a", at: 0, addedAt: 9e15, leaseMs: 5 })).toEqual({
    id: "a",
    at: "1970-01-01T00:00:00.000Z",
    addedAt: "9000000000000000",
    leaseMs: 5,
  });
});
