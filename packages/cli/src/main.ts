#!/usr/bin/env node
/** The program `ropeway`. */
import { runCli } from "./cli.ts";
import { EXIT } from "./exit-code.ts";
import { watchInterruption } from "./interruption.ts";
import { maskedArgument } from "./secret-address.ts";

// A closed pipe (`ropeway ... | head`) is no failure. A full disk is one: the reader would take a part for the whole.
process.stderr.on("error", () => {});
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE" || process.exitCode) return;
  process.exitCode = EXIT.failed.code;
  process.stderr.write(`Cannot write to standard output: ${error.message}\n`);
});

// On Linux and macOS this is what `ps` shows from now on.
const shown = process.argv.slice(2).map(maskedArgument);
if (shown.some((argument, index) => argument !== process.argv[index + 2])) {
  process.title = ["ropeway", ...shown].join(" ");
}

const code = await runCli(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  cwd: process.cwd(),
  signal: watchInterruption(process.env),
});
process.exitCode ||= code;
