import { type CliCommand, defineCommand } from "../cli-command.ts";
import { clusterKeys } from "../settings/table.ts";

/** `ropeway node`: runs tasks of the cluster. */
export function nodeCommand(): CliCommand {
  return defineCommand("node", "Run tasks of the cluster on this machine")
    .uses(
      ...clusterKeys,
      "cluster.id",
      "node.id",
      "node.host",
      "node.port",
      "node.leaseMs",
      "node.maxTasks",
      "log.level",
    )
    .describesSettings()
    .explains(
      `Registers under its id, and is refused while another process is registered under it. Logs to standard
error. Prints the line \`ropeway node ready ID URL\` when it is ready. Ctrl-C stops its tasks, which go on
elsewhere or when the node is back.`,
    )
    .runs(async (context) => (await import("../node/serve.ts")).serveNode(context));
}
