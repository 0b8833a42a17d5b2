import { expect, test, vi } from "vitest";
import type { Problem } from "../src/contract.ts";
import { FailureLog } from "../src/http/failure-log.ts";

const problem = (status: number, code: string) => ({ status, code }) as Problem;

test("a defect is logged each time, and a refused request never", () => {
  const failures = new FailureLog();
  for (let i = 0; i < 3; i++) {
    expect(failures.line(problem(500, "INTERNAL"))).toEqual({ code: "INTERNAL" });
    expect(failures.line(problem(400, "INVALID_NAME"))).toBeUndefined();
  }
});

test("a 503 is logged once in ten seconds per code, and the next line counts the others", () => {
  const clock = vi.spyOn(performance, "now").mockReturnValue(1_000);
  const failures = new FailureLog();
  const overloaded = () => failures.line(problem(503, "OVERLOADED"));
  expect(overloaded()).toEqual({ code: "OVERLOADED" });
  expect(failures.line(problem(503, "NOT_CONNECTED"))).toEqual({ code: "NOT_CONNECTED" });
  expect([overloaded(), overloaded()]).toEqual([undefined, undefined]);
  clock.mockReturnValue(11_000);
  expect(overloaded()).toEqual({ code: "OVERLOADED", unlogged: 2 });
  clock.mockReturnValue(21_000);
  expect(overloaded()).toEqual({ code: "OVERLOADED" });
  clock.mockRestore();
});
