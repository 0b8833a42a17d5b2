/** What `ropeway chat ...` does. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { show as shown } from "@ropeway/core/internal";
import { Chat, NotAMemberError, RoomNotFoundError, type RoomView } from "@ropeway/kit/chat";
import type { Context } from "../context.ts";
import { UsageError } from "../errors.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { namingFlags } from "../refused-option.ts";
import { isoTime, withIsoTimes } from "../terminal/time.ts";
import { wholeNumber } from "../whole-number.ts";
import { keyPrefix, pageOf } from "./key-prefix.ts";
import { messageOf, textOf } from "./message.ts";

export type ChatVerb =
  | "rooms"
  | "create"
  | "show"
  | "members"
  | "join"
  | "leave"
  | "send"
  | "read"
  | "unread"
  | "acknowledge"
  | "watch";

/** The program that owns a room decides which messages are removed, so the commands remove none. */
const KEEP_ALL = { keepRead: true, maxAgeMs: null, maxMessages: 10_000_000 };

async function withChat(context: Context, work: (chat: Chat) => Promise<void>): Promise<void> {
  await using redis = await openRedis(await findRedis(context));
  const options = { prefix: keyPrefix(context), ...KEEP_ALL };
  await namingFlags({}, () => work(new Chat(redis, options)));
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
    if (page.items.length === 0) await existing(chat, room);
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

function show(context: Context): Promise<void> {
  const [id = ""] = context.arguments;
  return withChat(context, async (chat) => {
    const view = await existing(chat, id);
    const room = chat.room(id);
    const [present, typing] = await Promise.all([room.present(), room.typing()]);
    context.output.details(
      { ...view, present, typing },
      {
        room: id,
        members: view.members,
        messages: view.messages,
        newest: view.newest,
        present: present.join(" ") || undefined,
        typing: typing.join(" ") || undefined,
      },
    );
  });
}

function members(context: Context): Promise<void> {
  const [room = ""] = context.arguments;
  const limit = wholeNumber(context.options, "limit", 1);
  return withChat(context, async (chat) => {
    await existing(chat, room);
    context.output.list(await chat.room(room).members(pageOf(context, limit)), {
      columns: { USER: ({ user }) => user, "READ UP TO": ({ cursor }) => cursor },
      empty: "no more members",
    });
  });
}

function join(context: Context): Promise<void> {
  const [room = "", user = ""] = context.arguments;
  const history = context.options.history === true;
  return withChat(context, async (chat) => {
    await chat.room(room).join(user, { history });
    context.output.outcome("joined", { room, user }, `${user} is a member of room ${room}`);
  });
}

function leave(context: Context): Promise<void> {
  const [room = "", user = ""] = context.arguments;
  return withChat(context, async (chat) => {
    await existing(chat, room);
    if (!(await chat.room(room).leave(user))) throw new NotAMemberError(room, user);
    context.output.outcome("left", { room, user }, `${user} removed from room ${room}`);
  });
}

function unread(context: Context): Promise<void> {
  const [user = ""] = context.arguments;
  const limit = wholeNumber(context.options, "limit", 1);
  return withChat(context, async (chat) => {
    context.output.list(await chat.unread(user, pageOf(context, limit)), {
      columns: { ROOM: ({ room }) => room, UNREAD: ({ unread: count }) => count },
      empty: `${user} is in no room: add it to one with \`ropeway chat join ROOM USER\``,
    });
  });
}

function acknowledge(context: Context): Promise<void> {
  const [room = "", user = "", text = ""] = context.arguments;
  if (!/^\d{1,15}$/.test(text)) {
    throw new UsageError(`the id is ${shown(text)}, but must be the number of a message`);
  }
  return withChat(context, async (chat) => {
    await existing(chat, room);
    const id = await chat.room(room).acknowledge(user, Number(text));
    context.output.outcome("acknowledged", { room, user, id }, `${user} has read up to ${id}`);
  });
}

/** The room. Throws RoomNotFoundError. */
async function existing(chat: Chat, id: string): Promise<RoomView> {
  const view = await chat.room(id).inspect();
  if (view.members === 0) throw new RoomNotFoundError(id);
  return view;
}

function watch(context: Context): Promise<void> {
  const [user = ""] = context.arguments;
  const { output, options } = context;
  const signal = AbortSignal.any([context.signal, output.unread]);
  return withChat(context, async (chat) => {
    for await (const event of chat.feed(user, { signal })) {
      output.result(withIsoTimes(event), () => {
        if (event.type === "message")
          output.line(`${event.room} ${event.sender}: ${textOf(event.message)}`);
        else output.line(`${event.room} ${event.user} is ${event.type}`);
      });
      if (event.type === "message" && options.acknowledge === true) {
        await nextTurn(); // then a write to a closed pipe has failed
        if (output.unread.aborted) return; // nobody has read the message
        await chat.room(event.room).acknowledge(user, event.id);
      }
    }
  });
}

export const verbs: Readonly<Record<ChatVerb, (context: Context) => Promise<void>>> = {
  rooms,
  create,
  show,
  members,
  join,
  leave,
  send,
  read,
  unread,
  acknowledge,
  watch,
};
