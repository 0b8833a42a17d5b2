import { expect, test } from "vitest";
import { absolute, baselineOf, type ScenarioResult } from "../src/results.ts";
import { resultsOf, sampleOf, standingOf } from "./sample-results.ts";

const QUERY = { scenario: "s", metric: "rate", of: "b", to: "a" } as const;

test("a ratio is computed within each round, then the median over the rounds", () => {
  // The machine was half as fast in round 2. The ratio is not affected.
  const results = resultsOf([
    standingOf("a", "peer", [100, 50, 100]),
    standingOf("b", "ours", [200, 100, 210]),
  ]);
  expect(results.ratio(QUERY)).toEqual({ median: 2, min: 2, max: 2.1 });
});

test("a ratio ignores rounds that only one side has", () => {
  const b = { name: "b", role: "ours", samples: [sampleOf(2, { rate: 30 })] } as const;
  const results = resultsOf([standingOf("a", "peer", [100, 10]), b]);
  expect(results.ratio(QUERY)).toEqual({ median: 3, min: 3, max: 3 });
});

test("a ratio is undefined if a contender did not run or a metric was not measured", () => {
  const results = resultsOf([standingOf("a", "peer", [1])]);
  expect(results.ratio(QUERY)).toBeUndefined();
  expect(results.ratio({ ...QUERY, of: "a", metric: "p99" })).toBeUndefined();
});

test("the absolute figure of a metric is the spread over the rounds", () => {
  expect(absolute(standingOf("a", "peer", [1, 9, 2]), "rate")).toEqual({
    median: 2,
    min: 1,
    max: 9,
  });
});

test("if the declared baseline did not run, the first contender that ran is the baseline", () => {
  const skipped = { name: "a", role: "peer", samples: [], skipped: "not installed" } as const;
  const [result] = resultsOf([skipped, standingOf("b", "ours", [1])]).scenarios;
  expect(baselineOf(result as ScenarioResult)).toBe("b");
});
