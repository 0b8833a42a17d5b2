// `npm test`: prepares the workspace, provides the real servers that the tests need, runs vitest with
// the arguments it was given, and ends with one plain line of counts.
//
// On CI, files with a failure run once more, one after another. The tests start hundreds of real servers,
// and a crowded machine can starve one of them. A defect fails both times. A test that passes the second
// time is named as unstable in the output, so that somebody mends it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { countsOf, failedFiles, failedTests, withSecondRun } from "./counts.mjs";
import { fail, prepare } from "./prepare.mjs";

/** With more failed files than this, something is broken, and a second run would only take time. */
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

/** Finds or provides every program the tests use and names them to the tests by environment. */
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
  // Stay until vitest has closed its workers. A terminal's Ctrl-C reaches vitest by itself.
  const interrupt = () => process.stdin.isTTY || child.kill("SIGINT");
  const terminate = () => child.kill("SIGTERM");
  process.on("SIGINT", interrupt).on("SIGTERM", terminate);
  const [exitCode, signal] = await once(child, "exit");
  process.off("SIGINT", interrupt).off("SIGTERM", terminate);
  if (!existsSync(file)) {
    fail(
      `vitest ended without a report (${signal || `exit code ${exitCode}`}): see the lines above.`,
    );
  }
  return { code: exitCode ?? 1, report: JSON.parse(readFileSync(file, "utf8")) };
}
