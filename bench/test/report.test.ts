import { expect, test } from "vitest";
import { reportText, showNumber } from "../src/report.ts";
import { resultsOf, standingOf } from "./sample-results.ts";

test("numbers have three digits", () => {
  expect([0.1234, 1, 12.345, 123.4, 9999, 12_345, 1_234_567].map(showNumber)).toEqual([
    "0.123",
    "1.00",
    "12.3",
    "123",
    "9999",
    "12.3k",
    "1.23M",
  ]);
});

test("a report shows each contender's ratio with its spread, then its absolute figure", () => {
  const text = reportText(
    resultsOf([
      standingOf("bare", "ceiling", [100, 100, 50]),
      standingOf("ours", "ours", [90, 120, 40]),
    ]),
  );
  expect(text).toContain("s: A scenario");
  expect(text).toContain("ratios to bare");
  expect(text).toMatch(/ours +0\.900x \(0\.800-1\.20\) 90\.0 op\/s/);
  expect(text).toContain("other processes used at most 2 % of the machine; 0 slices were repeated");
});

test("a contender that was skipped is listed with the reason", () => {
  const absent = { name: "peer", role: "peer", samples: [], skipped: "not installed" } as const;
  const text = reportText(resultsOf([standingOf("ours", "ours", [1]), absent]));
  expect(text).toMatch(/peer +left out: not installed/);
});
