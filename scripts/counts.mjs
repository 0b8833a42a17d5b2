// Reads vitest's JSON reports and says in one plain line how a run went; CI and people read that line.

/** "12 passed, 0 failed", with ", 2 skipped" if there were any. */
export function countsOf(report) {
  const counts = { passed: 0, failed: report.testResults.filter(isBrokenFile).length, skipped: 0 };
  for (const { status } of report.testResults.flatMap((file) => file.assertionResults)) {
    counts[status in counts ? status : "skipped"]++;
  }
  const { passed, failed, skipped } = counts;
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

/** The paths of the files in which something failed. */
export function failedFiles(report) {
  return report.testResults.filter(({ status }) => status === "failed").map(({ name }) => name);
}

/** The titles of the tests that failed, each with its file. */
export function failedTests(report) {
  return report.testResults.flatMap((file) =>
    file.assertionResults
      .filter(({ status }) => status === "failed")
      .map(({ fullName }) => `${file.name}: ${fullName}`),
  );
}

/** The first report, with the files of the second one as they were there. */
export function withSecondRun(first, second) {
  const again = new Map(second.testResults.map((file) => [file.name, file]));
  return {
    ...first,
    testResults: first.testResults.map((file) => again.get(file.name) ?? file),
  };
}

/** A file that could not even be read has no failed test to count, and must not pass for a good one. */
function isBrokenFile({ status, assertionResults }) {
  return status === "failed" && !assertionResults.some((test) => test.status === "failed");
}
