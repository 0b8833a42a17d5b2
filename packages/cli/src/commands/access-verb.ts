import { type CliCommand, defineCommand } from "../cli-command.ts";
import { clusterKeys } from "../settings/table.ts";

/** A verb that works directly on the cluster's store. */
export function accessVerb(noun: string, verb: string, summary: string): CliCommand {
  return defineCommand(verb, summary)
    .uses(...clusterKeys)
    .runs(async (context) => {
      const { verbs } = await import("../cluster/access-verbs.ts");
      await verbs[`${noun} ${verb}`]?.(context);
    });
}
