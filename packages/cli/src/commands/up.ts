import { type CliCommand, defineCommand } from "../cli-command.ts";

/** `ropeway up`: everything on one machine. */
export function upCommand(): CliCommand {
  return defineCommand("up", "Start Redis and the portal on this machine")
    .uses("home", "redis.url", "redis.passwordFile", "portal.host", "portal.port")
    .uses("portal.prefix", "portal.adminPasswordFile", "queue.port", "queue.targets")
    .uses("up.redisPort", "up.appendfsync", "log.level")
    .addHelpText(
      "after",
      `
Uses the Redis of REDIS_URL; else starts a real one on a private port, with its data in the home.
Ctrl-C stops all of it and keeps the data; a second Ctrl-C does not wait.`,
    )
    .runs(async (context) => (await import("../up/up.ts")).up(context));
}
