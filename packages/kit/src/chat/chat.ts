/**
 * Group chat on the documented keys. A message is stored once per room, whatever the number of members;
 * each member has a cursor, the id of the last message that it has acknowledged.
 *
 * Differences to the documented programs: sending is one script without a lock (but respects theirs), a
 * cursor moves when a message is acknowledged and not when it is fetched, it moves forward only, and an
 * absent member does not keep messages for ever.
 */

import { InvalidArgumentError, type Page, type Redis } from "@ropeway/core";
import { requireRedis } from "@ropeway/core/internal";
import { checkName } from "../keyspace.ts";
import { type ListOptions, scanNames, viewsOf } from "../store/scan.ts";
import { RoomExistsError } from "./errors.ts";
import { type ChatEvent, feedOf } from "./feed.ts";
import { membersHead } from "./keys.ts";
import { messageJson, type RoomMessage } from "./message.ts";
import {
  type ChatOptions,
  type FeedOptions,
  type HistoryOptions,
  type PendingOptions,
  resolveChatOptions,
  resolveFeedOptions,
  resolvePendingOptions,
  resolvePlacesOptions,
} from "./options.ts";
import { cursorAfter, type OrderedPlace, placeOf } from "./place-cursor.ts";
import { NO_ROOM, Room, type RoomView } from "./room.ts";
import { ChatStore } from "./store.ts";

/** A new room. */
export interface NewRoom<Message> {
  readonly sender: string;
  readonly recipients: readonly string[];
  /** The first message. */
  readonly message: Message;
  /** @default the next number */
  readonly id?: string;
}

/** The messages of one room that a user has not acknowledged. */
export interface Pending<Message> {
  readonly room: string;
  readonly messages: readonly RoomMessage<Message>[];
  /** Messages that retention removed before the user has seen them. */
  readonly missed: number;
}

/** All rooms under one prefix. */
export class Chat<Message = unknown> {
  readonly #redis: Redis;
  readonly #store: ChatStore;
  readonly #prefix: string;

  constructor(redis: Redis, options?: ChatOptions) {
    requireRedis(redis);
    const resolved = resolveChatOptions(options);
    this.#redis = redis;
    this.#prefix = resolved.prefix;
    this.#store = new ChatStore(redis, resolved);
  }

  /** A room by its id; does no I/O. */
  room(id: string): Room<Message> {
    return new Room<Message>(this.#redis, id, this.#store.options);
  }

  /** Creates a room and sends its first message. Throws RoomExistsError. */
  async create(room: NewRoom<Message>): Promise<Room<Message>> {
    if (typeof room !== "object" || room === null) {
      throw new InvalidArgumentError("room", room, "an object with sender, recipients and message");
    }
    const { sender, recipients, message, id } = room;
    if (!Array.isArray(recipients)) {
      throw new InvalidArgumentError("recipients", recipients, "an array of users");
    }
    const users = [...new Set([...recipients, sender])];
    for (const user of users) checkName("a user", user);
    messageJson(message, this.#store.options.maxMessageBytes); // before anything is made
    const made = id === undefined ? await this.#numbered(users) : this.room(id);
    if (id !== undefined) await this.#store.create(id, users);
    await made.send(sender, message);
    return made;
  }

  /** A room with the next number; a number that is an id already is skipped. */
  async #numbered(users: readonly string[]): Promise<Room<Message>> {
    for (;;) {
      const room = this.room(await this.#store.newRoomId());
      try {
        await this.#store.create(room.id, users);
        return room;
      } catch (error) {
        if (!(error instanceof RoomExistsError)) throw error;
      }
    }
  }

  /**
   * The messages that a user has not acknowledged, in all rooms; rooms without such messages are left out.
   */
  async pending(user: string, options?: PendingOptions): Promise<Page<Pending<Message>>> {
    const { cursor, limit, perRoom: most } = resolvePendingOptions(options);
    const places = await this.#store.places(user, limit, placeOf(cursor));
    const found = await Promise.all(
      places.map(async ({ name: room, cursor: seen }) => {
        const messages = await this.#store.after<Message>(room, seen, most);
        const missed = messages[0] === undefined ? 0 : messages[0].id - seen - 1;
        return { room, messages, missed };
      }),
    );
    const items = found.filter(({ messages }) => messages.length > 0);
    return { items, ...nextOf(places, limit) };
  }

  /** The rooms of a user, and how many messages it has not acknowledged in each. */
  async unread(
    user: string,
    options?: HistoryOptions,
  ): Promise<Page<{ room: string; unread: number }>> {
    const { cursor, limit } = resolvePlacesOptions(options);
    const places = await this.#store.places(user, limit, placeOf(cursor));
    const newest = await this.#store.newest(places.map(({ name }) => name));
    const items = places.map(({ name: room, cursor: seen }, i) => ({
      room,
      unread: Math.max(0, (newest[i] ?? 0) - seen),
    }));
    return { items, ...nextOf(places, limit) };
  }

  /** The pending messages of a user, then every event as it happens, until the signal aborts. */
  feed(user: string, options: FeedOptions): AsyncGenerator<ChatEvent<Message>, void> {
    checkName("a user", user);
    const { signal } = resolveFeedOptions(options);
    return feedOf<Message>(this.#store, user, signal);
  }

  /** All rooms, page by page, for operators. */
  async rooms(options?: ListOptions): Promise<Page<RoomView>> {
    const of = { before: membersHead(this.#prefix), type: "zset" } as const;
    const { items, ...rest } = await scanNames(this.#redis, of, options);
    const rooms = items.filter((id) => id !== NO_ROOM);
    return { items: await viewsOf(rooms, (id) => this.room(id).inspect()), ...rest };
  }
}

/** The cursor of the next page, if there may be one. */
function nextOf(places: readonly OrderedPlace[], limit: number): { readonly cursor?: string } {
  const last = places.at(-1);
  return last === undefined || places.length < limit ? {} : cursorAfter(last);
}
