import { type CliCommand, defineCommand } from "../cli-command.ts";
import type { MailboxVerb } from "../kit/mailbox-verbs.ts";
import { redisKeys } from "../settings/table.ts";

/** `ropeway mailbox ...`: mailboxes, directly in their Redis. */
export function mailboxCommand(): CliCommand {
  const mailbox = defineCommand("mailbox", "Inspect mailboxes, send to them and receive from them");
  mailbox.addCommand(
    verbOf("show", "Show how many messages wait, are received and are dead letters"),
  );
  mailbox.addCommand(paged(verbOf("peek", "List the messages that wait, oldest first")));
  mailbox.addCommand(paged(verbOf("letters", "List dead letters, newest first")));
  mailbox.addCommand(
    verbOf("send", "Send a message")
      .argument("<message>", "JSON, or any string; - reads standard input")
      .option("--sender <name>", "who sends it")
      .option("--ttl <time>", "how long it lives, such as 1d; it does not expire if left out"),
  );
  mailbox.addCommand(
    verbOf("receive", "Print messages and remove them from the mailbox")
      .option("--max <number>", "the maximum number of messages", "1")
      .option("--wait <time>", "how long to wait for the first message, such as 30s", "0")
      .explains(
        "A message is removed after it was printed. If the command is interrupted before that, the message returns to the mailbox.",
      ),
  );
  mailbox.addCommand(
    verbOf("clear", "Remove all messages, received ones and dead letters included").option(
      "--yes",
      "confirm it",
    ),
  );
  return mailbox;
}

function verbOf(name: MailboxVerb, summary: string): CliCommand {
  return defineCommand(name, summary)
    .uses(...redisKeys)
    .argument("<recipient>", "whose mailbox it is")
    .option("--key-prefix <prefix>", "the prefix of the keys")
    .runs(async (context) => (await import("../kit/mailbox-verbs.ts")).verbs[name](context));
}

function paged(command: CliCommand): CliCommand {
  return command
    .option("--limit <number>", "the maximum number of messages", "50")
    .option("--cursor <cursor>", "the cursor of the previous page");
}
