import { type CliCommand, defineCommand } from "../cli-command.ts";
import { accessVerb } from "./access-verb.ts";

/** `ropeway user ...`: the portal's accounts, managed directly in the cluster's store. */
export function userCommand(): CliCommand {
  const user = defineCommand("user", "Manage the portal's accounts");
  user.addCommand(accessVerb("user", "list", "List the accounts"));
  user.addCommand(addVerb());
  user.addCommand(
    accessVerb("user", "remove", "Remove an account, with its sessions and tokens").argument(
      "<name>",
      "the account's name",
    ),
  );
  user.addCommand(passwordVerb());
  user.addCommand(
    accessVerb("user", "role", "Give an account another role")
      .argument("<name>", "the account's name")
      .argument("<role>", "viewer, operator, admin or a role of your own"),
  );
  return user;
}

function addVerb(): CliCommand {
  return accessVerb("user", "add", "Add an account")
    .argument("<name>", "the account's name")
    .option("--role <role>", "viewer, operator, admin or a role of your own", "viewer")
    .option("--generate", "generate a random password and print it once")
    .explains(
      "Asks for the password without showing it. In a pipe, reads it from the first line of standard input.",
    );
}

function passwordVerb(): CliCommand {
  return accessVerb("user", "password", "Set the password of an account, and end its sessions")
    .argument("<name>", "the account's name")
    .option("--generate", "generate a random password and print it once")
    .explains(
      `Asks for the new password without showing it. In a pipe, reads it from the first line of standard input.
The old password is not needed, only access to the store. Use it when the password of \`admin\` is lost.`,
    );
}
