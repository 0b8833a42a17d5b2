import { expect, test } from "vitest";
import { countsOf } from "../counts.mjs";

const report = {
  numPassedTests: 3,
  numFailedTests: 1,
  numPendingTests: 0,
  numTodoTests: 0,
  testResults: [
    { status: "passed", assertionResults: [{ status: "passed" }] },
    { status: "failed", assertionResults: [{ status: "failed" }] },
  ],
};

test("the line has the passed and the failed tests", () => {
  expect(countsOf(report)).toBe("3 passed, 1 failed");
});

test("skipped tests are told only if there are any", () => {
  expect(countsOf({ ...report, numPendingTests: 2, numTodoTests: 1 })).toBe(
    "3 passed, 1 failed, 3 skipped",
  );
});

test("a file that could not be read counts as a failure", () => {
  const broken = { status: "failed", assertionResults: [] };
  expect(countsOf({ ...report, testResults: [...report.testResults, broken] })).toBe(
    "3 passed, 2 failed",
  );
});
