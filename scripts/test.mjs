// `npm test`: prepares the workspace, provides the real servers that the tests need, runs vitest with
// the arguments it was given, and ends with one plain line of counts.
import { spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { countsOf } from "./counts.mjs";
import { fail, prepare } from "./prepare.mjs";

await prepare();
const environment = await servers();
const report = join(".ropeway", "test-report.json");
rmSync(report, { force: true });
const { code, signal } = await vitest();
if (!existsSync(report)) {
  fail(`vitest ended without a report (${signal || `exit code ${code}`}): see the lines above.`);
}
process.stdout.write(`${countsOf(JSON.parse(readFileSync(report, "utf8")))}\n`);
process.exitCode = code === null ? 1 : code;

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

async function vitest() {
  const args = ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const child = spawn(
    process.execPath,
    [join("node_modules", "vitest", "vitest.mjs"), ...args, ...process.argv.slice(2)],
    { stdio: "inherit", env: { ...process.env, ...environment } },
  );
  // Stay until vitest has closed its workers. A terminal's Ctrl-C reaches vitest by itself.
  process.on("SIGINT", () => process.stdin.isTTY || child.kill("SIGINT"));
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  return new Promise((ended) => child.once("exit", (code, signal) => ended({ code, signal })));
}
