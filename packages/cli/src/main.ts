#!/usr/bin/env node
/** The program `ropeway`. */
import { runCli } from "./cli.ts";
import { watchInterruption } from "./interruption.ts";
import { maskedArgument } from "./secret-address.ts";

// A closed pipe (`ropeway ... | head`) prints no stack trace.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  });
}

// On Linux and macOS this is what `ps` shows from now on.
const shown = process.argv.slice(2).map(maskedArgument);
if (shown.some((argument, index) => argument !== process.argv[index + 2])) {
  process.title = ["ropeway", ...shown].join(" ");
}

process.exitCode = await runCli(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  cwd: process.cwd(),
  signal: watchInterruption(process.env),
});
