// Reads vitest's JSON report and says in one plain line how it went; CI and people read that line.

/** "12 passed, 0 failed", with ", 2 skipped" if there were any. */
export function countsOf(report) {
  const { numPassedTests: passed, numPendingTests: pending, numTodoTests: todo } = report;
  const failed = report.numFailedTests + report.testResults.filter(isBrokenFile).length;
  const skipped = pending + todo;
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

/** A file that could not even be read has no failed test to count, and must not pass for a good one. */
function isBrokenFile({ status, assertionResults }) {
  return status === "failed" && !assertionResults.some((test) => test.status === "failed");
}
