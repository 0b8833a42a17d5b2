import { type CliCommand, defineCommand } from "../cli-command.ts";
import { settingKeys } from "../settings/table.ts";

/** `ropeway up`: everything on one machine. */
export function upCommand(): CliCommand {
  return defineCommand("up", "Start Redis, portal and merge queue on this machine")
    .uses(...settingKeys)
    .describesSettings()
    .explains(
      `Uses the Redis of redis.url. If it is not set, starts a Redis on a private port of 127.0.0.1 and keeps its data
in the home. Prints the URLs and the login, then the line \`ropeway ready URL\`. With --json, prints one object
{"ready", "url", "redis", "merge", "firstAdmin"} instead.

Ctrl-C stops everything and keeps the data. A second Ctrl-C stops immediately.`,
    )
    .runs(async (context) => (await import("../up/up.ts")).up(context));
}
