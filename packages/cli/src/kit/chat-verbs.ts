/** What `ropeway chat ...` does. */
import { Chat, RoomNotFoundError } from "@ropeway/kit/chat";
import type { Context } from "../context.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { isoTime, withIsoTimes } from "../terminal/time.ts";
import { wholeNumber } from "../whole-number.ts";
import { keyPrefix, pageOf } from "./key-prefix.ts";
import { messageOf, textOf } from "./message.ts";

export type ChatVerb = "rooms" | "create" | "send" | "read" | "watch";

async function withChat(context: Context, work: (chat: Chat) => Promise<void>): Promise<void> {
  await using redis = await openRedis(await findRedis(context));
  await work(new Chat(redis, { prefix: keyPrefix(context) }));
}

function rooms(context: Context): Promise<void> {
  const limit = wholeNumber(context.options, "limit", 1);
  return withChat(context, async (chat) => {
    context.output.list(await chat.rooms(pageOf(context, limit)), {
      columns: {
        ROOM: ({ id }) => id,
        MEMBERS: ({ members }) => members,
        MESSAGES: ({ messages }) => messages,
        NEWEST: ({ newest }) => newest,
      },
      empty: "no rooms: create one with `ropeway chat create`",
    });
  });
}

async function create(context: Context): Promise<void> {
  const [sender = "", recipients = "", text = ""] = context.arguments;
  const id = context.options.id === undefined ? {} : { id: String(context.options.id) };
  const message = await messageOf(context, text);
  await withChat(context, async (chat) => {
    const names = recipients.split(",").filter((name) => name !== "");
    const room = await chat.create({ sender, recipients: names, message, ...id });
    context.output.outcome("created", { room: room.id }, `room ${room.id} created`);
  });
}

async function send(context: Context): Promise<void> {
  const [room = "", sender = "", text = ""] = context.arguments;
  const message = await messageOf(context, text);
  await withChat(context, async (chat) => {
    const id = await chat.room(room).send(sender, message);
    context.output.outcome("sent", { room, id }, `message ${id} sent`);
  });
}

function read(context: Context): Promise<void> {
  const [room = ""] = context.arguments;
  const limit = wholeNumber(context.options, "limit", 1);
  return withChat(context, async (chat) => {
    const page = await chat.room(room).history(pageOf(context, limit));
    if (page.items.length === 0 && (await chat.room(room).inspect()).members === 0) {
      throw new RoomNotFoundError(room);
    }
    context.output.list(page, {
      columns: {
        ID: ({ id }) => id,
        TIME: ({ sentAt }) => isoTime(sentAt),
        SENDER: ({ sender }) => sender,
        MESSAGE: ({ message }) => textOf(message),
      },
      empty: "no messages: send one with `ropeway chat send ROOM SENDER MESSAGE`",
    });
  });
}

function watch(context: Context): Promise<void> {
  const [user = ""] = context.arguments;
  const { output, signal, options } = context;
  return withChat(context, async (chat) => {
    for await (const event of chat.feed(user, { signal })) {
      output.result(withIsoTimes(event), () => {
        if (event.type === "message")
          output.line(`${event.room} ${event.sender}: ${textOf(event.message)}`);
        else output.line(`${event.room} ${event.user} is ${event.type}`);
      });
      if (event.type === "message" && options.acknowledge === true) {
        await chat.room(event.room).acknowledge(user, event.id);
      }
    }
  });
}

export const verbs: Readonly<Record<ChatVerb, (context: Context) => Promise<void>>> = {
  rooms,
  create,
  send,
  read,
  watch,
};
