import { type CliCommand, defineCommand } from "../cli-command.ts";

/** `ropeway portal`: the portal alone, on a Redis that runs already. */
export function portalCommand(): CliCommand {
  return defineCommand("portal", "Serve the portal on a Redis that runs already")
    .uses("home", "prefix", "redis.url", "redis.passwordFile", "portal.host", "portal.port")
    .uses("portal.trustProxy", "portal.publicMetrics", "portal.adminPasswordFile", "log.level")
    .explains(
      `Uses the Redis of redis.url, else the one that \`ropeway up\` runs in this home. Logs go to standard error.
Prints the line \`ropeway ready URL\` when it serves. Ctrl-C lets requests under way finish.`,
    )
    .runs(async (context) => (await import("../portal/serve.ts")).servePortal(context));
}
