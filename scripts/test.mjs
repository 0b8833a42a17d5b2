// `npm test`: prepares the workspace, provides the real servers that the tests need, runs vitest with
// the same arguments, and prints one line of counts at the end.
//
// On CI, files with a failure run once more, one after another. The tests start hundreds of real servers,
// and one of them may get too little CPU time on a busy machine. A defect fails both times. The output
// names a test that passes the second time as unstable, so that it gets fixed.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { countsOf, failedFiles, failedTests, withSecondRun } from "./counts.mjs";
import { fail, prepare } from "./prepare.mjs";

/** With more failed files than this there is no second run, because the failures are not random. */
const MOST_FILES_AGAIN = 6;

await prepare();
const environment = await servers();
let { code, report } = await vitest(process.argv.slice(2));
const suspects = failedFiles(report);
if (process.env.CI && suspects.length > 0 && suspects.length <= MOST_FILES_AGAIN) {
  const unstable = failedTests(report);
  process.stdout.write(`Running ${suspects.length} failed file(s) again, one after another.\n`);
  const second = await vitest([...suspects, "--no-file-parallelism"]);
  code = second.code;
  report = withSecondRun(report, second.report);
  const failing = new Set(failedTests(report));
  for (const title of unstable.filter((title) => !failing.has(title))) {
    process.stdout.write(`unstable (failed once, passed alone): ${title}\n`);
  }
}
process.stdout.write(`${countsOf(report)}\n`);
process.exitCode = code;

/** Finds or provides the programs that the tests use. Returns environment variables with their paths. */
async function servers() {
  const { provideAll } = await import("../packages/provide/dist/index.js");
  const names = ["redis-server", "etcd"];
  if (existsSync(join("packages", "dashboard", "package.json"))) names.push("chromium");
  const onProgress = (sentence) => process.stderr.write(`${sentence}\n`);
  try {
    const programs = await provideAll(names, { onProgress });
    return Object.fromEntries(programs.map(({ variable, command }) => [variable, command[0]]));
  } catch (error) {
    return fail(error.code === "PROGRAM_UNAVAILABLE" ? error.message : error.stack);
  }
}

/** Runs vitest. Resolves to its exit code and its report. */
async function vitest(args) {
  const file = join(".ropeway", "test-report.json");
  rmSync(file, { force: true });
  const own = ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${file}`];
  const child = spawn(
    process.execPath,
    [join("node_modules", "vitest", "vitest.mjs"), ...own, ...args],
    { stdio: "inherit", env: { ...process.env, ...environment } },
  );
  // Wait until vitest has closed its workers. The terminal sends Ctrl-C to vitest directly.
  const interrupt = () => process.stdin.isTTY || child.kill("SIGINT");
  const terminate = () => child.kill("SIGTERM");
  process.on("SIGINT", interrupt).on("SIGTERM", terminate);
  const [exitCode, signal] = await once(child, "exit");
  process.off("SIGINT", interrupt).off("SIGTERM", terminate);
  if (!existsSync(file)) {
    fail(
      `vitest exited without a report (${signal || `exit code ${exitCode}`}): see the lines above.`,
    );
  }
  return { code: exitCode ?? 1, report: JSON.parse(readFileSync(file, "utf8")) };
}
