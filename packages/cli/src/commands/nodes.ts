import { type CliCommand, defineCommand } from "../cli-command.ts";
import type { NodeVerb } from "../cluster/node-verbs.ts";
import { clusterKeys } from "../settings/table.ts";

/** `ropeway nodes ...`: the nodes of the cluster. */
export function nodesCommand(): CliCommand {
  const nodes = defineCommand(
    "nodes",
    "List the nodes of the cluster, show, drain and remove them",
  );
  nodes.addCommand(verbOf("list", "List nodes and portals"));
  for (const [verb, summary] of [
    ["show", "Show a node or portal"],
    ["drain", "Stop placing tasks on a node, and move its running tasks to other nodes"],
    ["undrain", "Allow tasks on a node again"],
    ["remove", "Remove a node that is offline"],
  ] as const) {
    nodes.addCommand(verbOf(verb, summary).argument("<id>", "the node's id"));
  }
  return nodes;
}

function verbOf(name: NodeVerb, summary: string): CliCommand {
  return defineCommand(name, summary)
    .uses(...clusterKeys)
    .runs(async (context) => (await import("../cluster/node-verbs.ts")).nodeVerbs[name](context));
}
