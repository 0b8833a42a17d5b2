import { type CliCommand, defineCommand } from "../cli-command.ts";
import { accessVerb } from "./access-verb.ts";

/** `ropeway token ...`: API tokens. */
export function tokenCommand(): CliCommand {
  const token = defineCommand("token", "Manage API tokens");
  token.addCommand(accessVerb("token", "list", "List the tokens, without their secrets"));
  token.addCommand(
    accessVerb("token", "add", "Create a token and print it once")
      .argument("<name>", "what it is for")
      .option("--user <name>", "the account it acts for", "admin")
      .option("--permissions <list>", "limit it to these, such as task:view")
      .option("--groups <list>", "limit it to tasks of these groups")
      .option("--expires-in <time>", "such as 12h or 30d; it never expires if left out")
      .option("--expires-in-days <days>", "the same in days"),
  );
  token.addCommand(
    accessVerb("token", "revoke", "Revoke a token immediately").argument("<id>", "the token's id"),
  );
  return token;
}
