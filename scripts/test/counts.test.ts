import { expect, test } from "vitest";
import { countsOf, failedFiles, failedTests, withSecondRun } from "../counts.mjs";

const good = {
  name: "good.test.ts",
  status: "passed",
  assertionResults: [passed("a"), passed("b")],
};
const bad = { name: "bad.test.ts", status: "failed", assertionResults: [passed("c"), failed("d")] };
const broken = { name: "broken.test.ts", status: "failed", assertionResults: [] };

function passed(fullName: string) {
  return { fullName, status: "passed" };
}

function failed(fullName: string) {
  return { fullName, status: "failed" };
}

test("the line has the passed and the failed tests", () => {
  expect(countsOf({ testResults: [good, bad] })).toBe("3 passed, 1 failed");
});

test("skipped tests are counted only if there are any", () => {
  const skipped = ["pending", "todo", "skipped"].map((status) => ({ fullName: status, status }));
  const file = { name: "skipped.test.ts", status: "passed", assertionResults: skipped };
  expect(countsOf({ testResults: [good, file] })).toBe("2 passed, 0 failed, 3 skipped");
});

test("a file that could not be read counts as a failure", () => {
  expect(countsOf({ testResults: [good, bad, broken] })).toBe("3 passed, 2 failed");
});

test("failed files and tests are listed by name", () => {
  const report = { testResults: [good, bad, broken] };
  expect(failedFiles(report)).toEqual(["bad.test.ts", "broken.test.ts"]);
  expect(failedTests(report)).toEqual(["bad.test.ts: d"]);
});

test("a file that ran again counts with its second result", () => {
  const again = { ...bad, status: "passed", assertionResults: [passed("c"), passed("d")] };
  const report = withSecondRun({ testResults: [good, bad] }, { testResults: [again] });
  expect(countsOf(report)).toBe("4 passed, 0 failed");
  expect(countsOf(withSecondRun({ testResults: [good, bad] }, { testResults: [bad] }))).toBe(
    "3 passed, 1 failed",
  );
});
