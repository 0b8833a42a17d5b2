import { type CliCommand, defineCommand } from "../cli-command.ts";
import { accessVerb } from "./access-verb.ts";

/** `ropeway audit ...`: who changed what. */
export function auditCommand(): CliCommand {
  const audit = defineCommand("audit", "Read the audit log");
  audit.addCommand(
    accessVerb("audit", "list", "List changes, newest first")
      .option("--actor <name>", "only changes by this account")
      .option("--cursor <cursor>", "the cursor of the previous page")
      .option("--limit <number>", "the maximum number of entries"),
  );
  return audit;
}
