import { expect, test } from "vitest";
import { barLine, judge } from "../src/bar.ts";
import { resultsOf } from "./sample-results.ts";

function lineFor(ratio: number | undefined, op: ">=" | "<=", target: number): string {
  return barLine(judge({ id: "jobs.process.c100", ratio: () => ratio, op, target }, resultsOf([])));
}

test("a claim that holds is one line that says PASS", () => {
  expect(lineFor(6.2, ">=", 5)).toBe("BAR jobs.process.c100 6.20x >= 5x PASS");
  expect(lineFor(1.15, "<=", 1.15)).toBe("BAR jobs.process.c100 1.15x <= 1.15x PASS");
});

test("a claim that does not hold says FAIL", () => {
  expect(lineFor(4.9, ">=", 5)).toBe("BAR jobs.process.c100 4.90x >= 5x FAIL");
  expect(lineFor(Number.NaN, ">=", 5)).toContain("FAIL");
});

test("rounding never shows a ratio on the wrong side of its target", () => {
  expect(lineFor(1.1512, "<=", 1.15)).toBe("BAR jobs.process.c100 1.151x <= 1.15x FAIL");
  expect(lineFor(4.9996, ">=", 5)).toBe("BAR jobs.process.c100 4.9996x >= 5x FAIL");
});

test("a claim about a contender that did not run says SKIP", () => {
  expect(lineFor(undefined, ">=", 5)).toBe("BAR jobs.process.c100 not measured >= 5x SKIP");
});
