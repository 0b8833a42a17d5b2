import { type CliCommand, defineCommand } from "../cli-command.ts";
import { redisKeys } from "../settings/table.ts";

type Verbs = typeof import("../user/verbs.ts");

/** `ropeway user ...`: the portal's accounts, handled directly in their Redis. */
export function userCommand(): CliCommand {
  const user = defineCommand("user", "List the portal's accounts and set passwords");
  user.addCommand(verbOf("list", "List the accounts"));
  user.addCommand(passwordVerb());
  return user;
}

function verbOf(name: keyof Verbs["verbs"], summary: string): CliCommand {
  return defineCommand(name, summary)
    .uses(...redisKeys, "prefix")
    .runs(async (context) => (await import("../user/verbs.ts")).verbs[name](context));
}

function passwordVerb(): CliCommand {
  return verbOf("password", "Set the password of an account, and end its sessions")
    .argument("<name>", "the account's name")
    .option("--generate", "make a random password and print it once")
    .explains(
      `Asks for the new password without showing it. In a pipe, reads it from the first line of standard input.
The old password is not needed, only access to the Redis. Use it when the password of \`admin\` is lost.`,
    );
}
