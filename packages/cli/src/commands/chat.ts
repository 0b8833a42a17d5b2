import { type CliCommand, defineCommand } from "../cli-command.ts";
import type { ChatVerb } from "../kit/chat-verbs.ts";
import { redisKeys } from "../settings/table.ts";

/** `ropeway chat ...`: group chat, directly in its Redis. */
export function chatCommand(): CliCommand {
  const chat = defineCommand("chat", "List rooms, read and send messages");
  const room = (name: ChatVerb, summary: string) =>
    verbOf(name, summary).argument("<room>", "the room's id");
  chat.addCommand(
    verbOf("rooms", "List the rooms")
      .option("--search <text>", "only ids that contain this string")
      .option("--limit <number>", "the approximate maximum number of entries", "50")
      .option("--cursor <cursor>", "the cursor of the previous page"),
  );
  chat.addCommand(
    verbOf("create", "Create a room and send its first message")
      .argument("<sender>", "who creates it")
      .argument("<recipients>", "the other members, separated by commas")
      .argument("<message>", "JSON, or any string; - reads standard input")
      .option("--id <id>", "the room's id; the next number if it is left out"),
  );
  chat.addCommand(
    room("send", "Send a message")
      .argument("<sender>", "who sends it")
      .argument("<message>", "JSON, or any string; - reads standard input"),
  );
  chat.addCommand(
    room("read", "Print the newest messages of a room")
      .option("--limit <number>", "the maximum number of messages", "50")
      .option("--cursor <cursor>", "the cursor of the previous page"),
  );
  chat.addCommand(
    verbOf("watch", "Print what a user has not read and everything that follows, until Ctrl-C")
      .argument("<user>", "the user")
      .option("--acknowledge", "mark what was printed as read"),
  );
  return chat;
}

function verbOf(name: ChatVerb, summary: string): CliCommand {
  return defineCommand(name, summary)
    .uses(...redisKeys)
    .option("--key-prefix <prefix>", "the prefix of the keys")
    .runs(async (context) => (await import("../kit/chat-verbs.ts")).verbs[name](context));
}
