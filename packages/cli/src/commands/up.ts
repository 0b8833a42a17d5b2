import { type CliCommand, defineCommand } from "../cli-command.ts";
import { settingKeys } from "../settings/table.ts";

/** `ropeway up`: everything on one machine. */
export function upCommand(): CliCommand {
  return defineCommand("up", "Start Redis, portal and merge queue on this machine")
    .uses(...settingKeys)
    .explains(
      `Uses the Redis of redis.url; else starts a real one on a private port of 127.0.0.1, with its data in the
home. Prints where everything is, and then the line \`ropeway ready URL\`; with --json one object
{"ready", "url", "redis", "queue", "firstAdmin"} instead. Ctrl-C stops all of it and keeps the data; a second
Ctrl-C does not wait.`,
    )
    .runs(async (context) => (await import("../up/up.ts")).up(context));
}
