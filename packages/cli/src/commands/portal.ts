import { type CliCommand, defineCommand } from "../cli-command.ts";
import { partsOf, settingKeys } from "../settings/table.ts";

/** `ropeway portal`: the portal, on a Redis that runs already; the merge queue too if that is asked for. */
export function portalCommand(): CliCommand {
  return defineCommand("portal", "Serve the portal on a Redis that runs already")
    .uses(...settingKeys.filter((key) => partsOf(key).section !== "up"))
    .explains(
      `Uses the Redis of redis.url, else the one that \`ropeway up\` runs in this home. With --queue-serve true it
serves the merge queue as well: its port, and the deliveries. Any number of portals may do so on one Redis.
Logs go to standard error. Prints the line \`ropeway ready URL\` when it serves. Ctrl-C lets requests and
deliveries under way finish.`,
    )
    .runs(async (context) => (await import("../portal/serve.ts")).servePortal(context));
}
