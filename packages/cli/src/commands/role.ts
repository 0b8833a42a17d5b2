import { type CliCommand, defineCommand } from "../cli-command.ts";
import { accessVerb } from "./access-verb.ts";

/** `ropeway role ...`: custom roles. */
export function roleCommand(): CliCommand {
  const role = defineCommand("role", "Manage roles of your own");
  role.addCommand(accessVerb("role", "list", "List the roles"));
  role.addCommand(
    accessVerb("role", "add", "Add a role")
      .argument("<name>", "the role's name")
      .requiredOption(
        "--permissions <list>",
        "such as task:operate,node:view; task:* for every verb",
      )
      .option("--groups <list>", "only tasks and alerts of these groups"),
  );
  role.addCommand(
    accessVerb("role", "remove", "Remove a role that no account has").argument(
      "<name>",
      "the role's name",
    ),
  );
  return role;
}
