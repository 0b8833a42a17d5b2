import { type CliCommand, defineCommand } from "../cli-command.ts";
import { clusterKeys } from "../settings/table.ts";

/** `ropeway alerts ...`: what needs attention. */
export function alertsCommand(): CliCommand {
  const alerts = defineCommand("alerts", "List, show and acknowledge alerts");
  alerts.addCommand(
    verbOf("list", "List the alerts")
      .option("--all", "include resolved alerts")
      .option("--cursor <cursor>", "the cursor of the previous page"),
  );
  alerts.addCommand(verbOf("show", "Show an alert").argument("<id>", "the alert's id"));
  alerts.addCommand(verbOf("ack", "Acknowledge an alert").argument("<id>", "the alert's id"));
  return alerts;
}

function verbOf(name: "list" | "show" | "ack", summary: string): CliCommand {
  return defineCommand(name, summary)
    .uses(...clusterKeys)
    .runs(async (context) => (await import("../cluster/node-verbs.ts")).alertVerbs[name](context));
}
