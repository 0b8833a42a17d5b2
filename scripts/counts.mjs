// Summarises vitest's JSON reports in one line for CI and for people.

/** "12 passed, 0 failed", with ", 2 skipped" if any were skipped. */
export function countsOf(report) {
  const counts = { passed: 0, failed: report.testResults.filter(isBrokenFile).length, skipped: 0 };
  for (const { status } of report.testResults.flatMap((file) => file.assertionResults)) {
    counts[status in counts ? status : "skipped"]++;
  }
  const { passed, failed, skipped } = counts;
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

/** The paths of the failed files. */
export function failedFiles(report) {
  return report.testResults.filter(({ status }) => status === "failed").map(({ name }) => name);
}

/** The failed tests, each with its file and title. */
export function failedTests(report) {
  return report.testResults.flatMap((file) =>
    file.assertionResults
      .filter(({ status }) => status === "failed")
      .map(({ fullName }) => `${file.name}: ${fullName}`),
  );
}

/** The first report, with files replaced by their results in the second one. */
export function withSecondRun(first, second) {
  const again = new Map(second.testResults.map((file) => [file.name, file]));
  return {
    ...first,
    testResults: first.testResults.map((file) => again.get(file.name) ?? file),
  };
}

/** A file that could not be loaded has no failed tests, but counts as a failure. */
function isBrokenFile({ status, assertionResults }) {
  return status === "failed" && !assertionResults.some((test) => test.status === "failed");
}
