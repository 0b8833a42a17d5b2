import { type CliCommand, defineCommand } from "../cli-command.ts";
import { partsOf, settingKeys } from "../settings/table.ts";

/** `ropeway portal`: the portal on a running Redis, with the merge queue if --merge-serve is true. */
export function portalCommand(): CliCommand {
  return defineCommand("portal", "Serve the portal on an existing Redis")
    .uses(...settingKeys.filter((key) => partsOf(key).section !== "up"))
    .describesSettings()
    .explains(
      `Uses the Redis of redis.url. If it is not set, uses the Redis that \`ropeway up\` runs in this home. With
--merge-serve true, also serves the merge queue and makes its deliveries. Any number of portals may do so on
one Redis.

Logs to standard error. Prints the line \`ropeway ready URL\` when it is ready. Ctrl-C waits for requests and
deliveries in progress.`,
    )
    .runs(async (context) => (await import("../portal/serve.ts")).servePortal(context));
}
