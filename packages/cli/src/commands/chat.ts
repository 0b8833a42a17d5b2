import { type CliCommand, defineCommand } from "../cli-command.ts";
import type { ChatVerb } from "../kit/chat-verbs.ts";
import { redisKeys } from "../settings/table.ts";

/** `ropeway chat ...`: group chat, directly in its Redis. */
export function chatCommand(): CliCommand {
  const chat = defineCommand("chat", "List and manage rooms, read and send messages");
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
  chat.addCommand(room("show", "Show a room, and who is present and typing"));
  chat.addCommand(
    room("members", "List the members of a room, and how far each has read")
      .option("--limit <number>", "the maximum number of members", "50")
      .option("--cursor <cursor>", "the cursor of the previous page"),
  );
  chat.addCommand(
    room("join", "Add a member to a room")
      .argument("<user>", "the user")
      .option("--history", "let it read the stored messages too"),
  );
  chat.addCommand(
    room("leave", "Remove a member from a room; the last one removes the room").argument(
      "<user>",
      "the user",
    ),
  );
  chat.addCommand(
    room("read", "Print the newest messages of a room")
      .option("--limit <number>", "the maximum number of messages", "50")
      .option("--cursor <cursor>", "the cursor of the previous page"),
  );
  chat.addCommand(
    verbOf("unread", "List the rooms of a user, and how many messages it has not read in each")
      .argument("<user>", "the user")
      .option("--limit <number>", "the maximum number of rooms", "50")
      .option("--cursor <cursor>", "the cursor of the previous page"),
  );
  chat.addCommand(
    room("acknowledge", "Mark messages of a room as read by a user")
      .argument("<user>", "the user")
      .argument("<id>", "the id of the last message that was read"),
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
