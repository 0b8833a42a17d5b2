import { type CliCommand, defineCommand } from "../cli-command.ts";
import type { verbs } from "../cluster/task-verbs.ts";
import { ADDRESS_HELP } from "../secret-address.ts";
import { clusterKeys } from "../settings/table.ts";

/** `ropeway task ...`: the tasks of the cluster, managed directly in its store. */
export function taskCommand(): CliCommand {
  const task = defineCommand("task", "Create, start, stop and follow tasks");
  for (const verb of [
    createVerb(),
    listVerb(),
    oneTask("show", "Show a task"),
    oneTask("start", "Start a task").option(
      "--afresh",
      "start from the beginning instead of resuming",
    ),
    oneTask("stop", "Stop a task, and wait until it has stopped").option(
      "--no-wait",
      "do not wait until it has stopped",
    ),
    editVerb(),
    oneTask("remove", "Remove a task that is not running"),
    oneTask("move", "Move a task to a node").argument("<node>", "the node's id"),
    oneTask("events", "Show the events of a task").option("--follow", "keep printing new events"),
    oneTask("offset", "Show the last stored offset of a task"),
    keysOf("bigkeys", "List the keys that a task wrote in parts"),
    keysOf("discarded", "List the keys that a task could not write"),
  ]) {
    task.addCommand(verb);
  }
  return task;
}

function verbOf(name: keyof typeof verbs, summary: string): CliCommand {
  return defineCommand(name, summary)
    .uses(...clusterKeys)
    .runs(async (context) => (await import("../cluster/task-verbs.ts")).verbs[name](context));
}

function oneTask(
  name: Exclude<keyof typeof verbs, "create" | "list">,
  summary: string,
): CliCommand {
  return verbOf(name, summary).argument("<id>", "the task's id");
}

function keysOf(name: "bigkeys" | "discarded", summary: string): CliCommand {
  return oneTask(name, summary)
    .option("--limit <number>", "the maximum number of entries", "50")
    .option("--cursor <cursor>", "the cursor of the previous page");
}

function createVerb(): CliCommand {
  return verbOf("create", "Create a task")
    .requiredOption("--name <name>", "its name, unique in the cluster")
    .option("--type <type>", "sync or scripted", "sync")
    .option("--from <url>", "the source of a sync task")
    .option("--to <url>", "the target of a sync task")
    .option("--mode <mode>", "total, stock or increment")
    .option("--options <json>", "more of its configuration, as a JSON object, @file or -")
    .option("--group <group>", "the group it belongs to")
    .option("--immortal", "run it on another node when its node is gone")
    .option("--start", "start it at once")
    .explains(`${ADDRESS_HELP}
\`--options\` can be \`@FILE\` or \`-\` too. Passwords are encrypted before they are stored.`);
}

function editVerb(): CliCommand {
  return oneTask("edit", "Change a task that is not running")
    .option("--name <name>", "its new name, unique in the cluster")
    .option("--group <group>", "the group it belongs to")
    .option("--from <url>", "the source of a sync task")
    .option("--to <url>", "the target of a sync task")
    .option("--mode <mode>", "total, stock or increment")
    .option("--options <json>", "more of its configuration, as a JSON object, @file or -")
    .option("--immortal", "run it on another node when its node is gone")
    .option("--no-immortal", "do not run it on another node")
    .explains(`\`--from\`, \`--to\`, \`--mode\` and \`--options\` replace the whole configuration. \`--immortal\` can be changed
while the task runs. ${ADDRESS_HELP}`);
}

function listVerb(): CliCommand {
  return verbOf("list", "List tasks")
    .option("--status <status>", "only tasks with this status, such as BROKEN")
    .option("--node <id>", "only tasks on this node")
    .option("--group <group>", "only tasks of this group")
    .option("--name <name>", "only the task with this name")
    .option("--type <type>", "only tasks of this type")
    .option("--cursor <cursor>", "the cursor of the previous page")
    .option("--limit <number>", "the maximum number of entries, up to 500");
}
