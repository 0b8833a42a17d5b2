import { type CliCommand, defineCommand } from "../cli-command.ts";
import { clusterKeys } from "../settings/table.ts";

/** `ropeway alerts ...`: what needs attention. */
export function alertsCommand(): CliCommand {
  const alerts = defineCommand("alerts", "See and acknowledge alerts");
  alerts.addCommand(
    verbOf("list", "List the alerts")
      .option("--all", "include resolved alerts")
      .option("--cursor <cursor>", "the next page"),
  );
  alerts.addCommand(
    verbOf("ack", "Say that somebody takes care of an alert").argument("<id>", "the alert's id"),
  );
  return alerts;
}

function verbOf(name: "list" | "ack", summary: string): CliCommand {
  return defineCommand(name, summary)
    .uses(...clusterKeys)
    .runs(async (context) => (await import("../cluster/node-verbs.ts")).alertVerbs[name](context));
}
