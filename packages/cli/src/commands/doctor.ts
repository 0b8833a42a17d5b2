import { type CliCommand, defineCommand } from "../cli-command.ts";
import { redisKeys } from "../settings/table.ts";

/** `ropeway doctor`: checks everything, changes nothing, and prints what to change. */
export function doctorCommand(): CliCommand {
  return defineCommand("doctor", "Check Redis, this machine and the settings")
    .uses(...redisKeys, "portal.host", "portal.port", "merge.port")
    .explains(
      "Prints what to change, and changes nothing. Exits with 1 if a check fails; warnings do not count.",
    )
    .runs(async (context) => (await import("../doctor/examine.ts")).examine(context));
}
