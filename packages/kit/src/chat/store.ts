/** All Redis traffic of group chat. */
import type { Redis, Reply } from "@ropeway/core";
import type { BlockingConnection } from "@ropeway/core/internal";
import { checkName, checkSlots } from "../keyspace.ts";
import { Lock } from "../lock/lock.ts";
import { type SendNumber, sendSlots } from "../send-slots.ts";
import { refused } from "../store/refused.ts";
import { storedInteger } from "../store/stored-integer.ts";
import { NotAMemberError, RoomExistsError, RoomNotFoundError } from "./errors.ts";
import { type RoomKeys, roomCounterKey, roomKeys, seenKey } from "./keys.ts";
import { type RoomMessage, readMessage } from "./message.ts";
import type { ChatOptions } from "./options.ts";
import type { OrderedPlace } from "./place-cursor.ts";
import {
  acknowledgeScript,
  createScript,
  joinScript,
  leaveScript,
  noteScript,
  pageScript,
  placesScript,
  sendScript,
  trimScript,
} from "./scripts.ts";

/** Members that one call of create.lua takes. */
const MEMBERS_AT_ONCE = 500;

/** What leave.lua returns for a member that stays. */
const STAYS = -2;

/** What a feed knows of its user in a room. */
export interface Membership {
  /** The id of the last message that the user has acknowledged. */
  readonly cursor: number;
  /** The user was no member when the messages up to this id were sent, and has joined without them. */
  readonly joinedAfter: number;
}

/** What came over live streams since the last read. */
export interface LiveEntry {
  readonly key: string;
  readonly streamId: string;
  readonly kind: string;
  readonly value: string;
}

/** Which messages of a room. */
interface Range {
  readonly direction: "after" | "before";
  readonly id: number;
  readonly limit: number;
}

/** A message on its way into a room. */
interface Outgoing extends SendNumber {
  /** JSON. */
  readonly sender: string;
  readonly json: string;
  /** Ours, if we hold the room's lock, or "". */
  readonly token: string;
  /** Users that become members right before the message, unless they are. */
  readonly readers: readonly string[];
}

/** Group chat in one Redis. */
export class ChatStore {
  readonly redis: Redis;
  readonly options: Required<ChatOptions>;

  constructor(redis: Redis, options: Required<ChatOptions>) {
    this.redis = redis;
    this.options = options;
    checkSlots(redis, [roomCounterKey(options.prefix), seenKey(options.prefix, "x")]);
  }

  keys(room: string): RoomKeys {
    return roomKeys(this.options.prefix, room);
  }

  /** The id of a new room. If the reply is lost, a number is left out. */
  async newRoomId(): Promise<string> {
    const key = roomCounterKey(this.options.prefix);
    return String(await refused({ what: "a room", key }, this.#ask<number>("INCR", key)));
  }

  /** Makes a room with its members. Throws RoomExistsError. */
  async create(room: string, users: readonly string[]): Promise<void> {
    const { members, ids, msgs, sends, joined } = this.keys(room);
    const first = users.slice(0, MEMBERS_AT_ONCE);
    const keys = [members, ids, msgs, sends, joined, ...first.map((user) => this.#seen(user))];
    const made = await sendSlots.run(({ slot, number }) => {
      const running = this.redis.run(createScript, keys, [room, slot, number, ...first]);
      return refused({ what: "a room", key: members }, running);
    });
    if (made === 0) throw new RoomExistsError(room);
    for (const user of users.slice(MEMBERS_AT_ONCE)) await this.join(room, user, true);
  }

  /**
   * Appends a message and returns its id. `readers` that are no members become members right before it, in the
   * same step. Waits while a documented program holds the room's lock. Throws RoomNotFoundError, or
   * NotAcquiredError if that program does not release the lock.
   */
  append(
    room: string,
    sender: string,
    { json, readers = [] }: { readonly json: string; readonly readers?: readonly string[] },
  ): Promise<number> {
    const message = { sender: JSON.stringify(sender), json, readers };
    return sendSlots.run(async (number) => {
      const { prefix, lockWaitMs } = this.options;
      const lock = new Lock(this.redis, `chat:${room}`, { prefix, waitMs: lockWaitMs });
      let id = await this.#append(room, { ...message, ...number, token: "" });
      // Again if our lock was lost before the message was sent.
      while (id === 0) {
        id = await lock.run(({ token }) => this.#append(room, { ...message, ...number, token }));
      }
      return id;
    });
  }

  async join(room: string, user: string, history: boolean): Promise<number> {
    const { members, ids, msgs, joined } = this.keys(room);
    const args = [room, user, history ? "1" : "0"];
    const keys = [members, ids, msgs, this.#seen(user), joined];
    const cursor = await refused(
      { what: "a member", key: members },
      this.redis.run(joinScript, keys, args),
    );
    if (cursor < 0) throw new RoomNotFoundError(room);
    return cursor;
  }

  /**
   * Removes a member; returns how many are left, or undefined if the user was no member. With `newest` it
   * stays if another message is the newest one.
   */
  async leave(
    room: string,
    user: string,
    newest?: Pick<RoomMessage<unknown>, "id" | "sentAt">,
  ): Promise<number | "stays" | undefined> {
    const { members, ids, msgs, live, typing, present, sends, joined } = this.keys(room);
    const keys = [members, ids, msgs, this.#seen(user), live, typing, present, sends, joined];
    const args = [room, user, this.#keep, newest?.id ?? "", newest?.sentAt ?? ""];
    const running = this.redis.run(leaveScript, keys, args);
    const [left, more] = await refused({ what: "a member", key: members }, running);
    await this.#trim(room, more);
    if (left === STAYS) return "stays";
    return left < 0 ? undefined : left;
  }

  /**
   * Moves the cursor forward to `id`, or not at all; returns where it is. With `sentAt` it stays if the id
   * is that of another message, because the room was made again.
   */
  async acknowledge(
    room: string,
    user: string,
    { id, sentAt }: Pick<RoomMessage<unknown>, "id"> & { readonly sentAt?: number },
  ): Promise<number> {
    const { members, ids, msgs } = this.keys(room);
    const keys = [members, ids, msgs, this.#seen(user)];
    const args = [room, user, id, this.#keep, sentAt ?? ""];
    const running = this.redis.run(acknowledgeScript, keys, args);
    const [cursor, more] = await refused({ what: "a cursor", key: members }, running);
    await this.#trim(room, more);
    if (cursor < 0) throw new NotAMemberError(room, user);
    return cursor;
  }

  /** Records that a member is typing or present. */
  async note(
    room: string,
    user: string,
    note: { kind: "typing" | "present"; ttlMs: number },
  ): Promise<void> {
    checkName("a user", user);
    const keys = this.keys(room);
    const touched = [keys.members, keys[note.kind], keys.live];
    const running = this.redis.run(noteScript, touched, [user, note.kind, note.ttlMs]);
    const known = await refused({ what: "a note", key: keys[note.kind] }, running);
    if (known < 0) throw new NotAMemberError(room, user);
  }

  /** Who is typing or present now. */
  async noted(room: string, kind: "typing" | "present"): Promise<readonly string[]> {
    const key = this.keys(room)[kind];
    const [seconds, micros] = await this.#ask<readonly string[]>("TIME");
    const now = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
    return this.#ask("ZRANGEBYSCORE", key, `(${now}`, "+inf", "LIMIT", "0", "1000");
  }

  /** Messages after an id, oldest first. */
  after<M>(room: string, id: number, limit: number): Promise<readonly RoomMessage<M>[]> {
    return this.#page<M>(room, { direction: "after", id, limit });
  }

  /** Messages before an id, newest first. */
  before<M>(room: string, id: number, limit: number): Promise<readonly RoomMessage<M>[]> {
    return this.#page<M>(room, { direction: "before", id, limit });
  }

  /** A user's rooms and cursors: one page, after the last place of the page before. */
  places(user: string, limit: number, after?: OrderedPlace): Promise<readonly OrderedPlace[]> {
    return this.#placesIn(this.#seen(user), limit, after);
  }

  /** Members and cursors of a room: one page, in the same way. */
  members(room: string, limit: number, after?: OrderedPlace): Promise<readonly OrderedPlace[]> {
    return this.#placesIn(this.keys(room).members, limit, after);
  }

  /** A member's cursor. Throws NotAMemberError. */
  async cursor(room: string, user: string): Promise<number> {
    checkName("a user", user);
    const score = await this.#ask<string | null>("ZSCORE", this.keys(room).members, user);
    if (score === null) throw new NotAMemberError(room, user);
    return Number(score);
  }

  /** What is known of a user in a room; undefined if it is no member. */
  async membership(room: string, user: string): Promise<Membership | undefined> {
    const { members, joined } = this.keys(room);
    const [cursor, after] = await Promise.all([
      this.#ask<string | null>("ZSCORE", members, user),
      this.#ask<string | null>("ZSCORE", joined, user),
    ]);
    if (cursor === null) return undefined;
    // A cursor begins where its user joined. One behind that is of a room that a documented program made again.
    const joinedAfter = Number(after ?? 0);
    return { cursor: Number(cursor), joinedAfter: joinedAfter > Number(cursor) ? 0 : joinedAfter };
  }

  /** The ids of the newest messages of rooms; 0 for a room without any. */
  async newest(rooms: readonly string[]): Promise<readonly number[]> {
    if (rooms.length === 0) return [];
    const ids = await this.#ask<readonly (string | null)[]>(
      "MGET",
      ...rooms.map((room) => this.keys(room).ids),
    );
    return ids.map((id) => Number(id ?? 0));
  }

  /** How many members and messages a room has. */
  async counts(room: string): Promise<{ members: number; messages: number; newest: number }> {
    const keys = this.keys(room);
    const [members, messages, newest] = await Promise.all([
      this.#ask<number>("ZCARD", keys.members),
      this.#ask<number>("ZCARD", keys.msgs),
      this.#ask<string | null>("GET", keys.ids),
    ]);
    return { members, messages, newest: storedInteger(newest) ?? 0 };
  }

  /** Blocks until something happens in one of the streams, or for `blockMs`. */
  async readLive(
    connection: BlockingConnection,
    streams: ReadonlyMap<string, string>,
    blockMs: number,
  ): Promise<readonly LiveEntry[]> {
    const command = ["XREAD", "COUNT", "100", "BLOCK", String(blockMs), "STREAMS"];
    const reply = await connection.send<Reply>(
      [...command, ...streams.keys(), ...streams.values()],
      { blockMs },
    );
    return liveEntries(reply);
  }

  /** The last entry of a stream, to read on from. */
  async liveEnd(key: string): Promise<string> {
    const [last] = await this.#ask<readonly (readonly [string, Reply])[]>(
      "XREVRANGE",
      key,
      "+",
      "-",
      "COUNT",
      "1",
    );
    return last?.[0] ?? "0-0";
  }

  /** Removes the rest of what all members have read, in short steps. */
  async #trim(room: string, more: number): Promise<void> {
    const { members, msgs } = this.keys(room);
    for (let rest = more; rest === 1; ) {
      rest = await this.redis.run(trimScript, [members, msgs], []);
    }
  }

  get #keep(): string {
    return this.options.keepRead ? "1" : "0";
  }

  #seen(user: string): string {
    checkName("a user", user);
    return seenKey(this.options.prefix, user);
  }

  async #append(room: string, message: Outgoing): Promise<number> {
    const { lock, ids, msgs, members, live, sends, joined } = this.keys(room);
    const { maxMessages, maxAgeMs } = this.options;
    const { sender, json, token, slot, number, readers } = message;
    const how = [sender, json, token, maxMessages, maxAgeMs ?? 0, slot, number];
    const seen = readers.map((user) => this.#seen(user));
    const keys = [lock, ids, msgs, members, live, sends, joined, ...seen];
    const id = await refused(
      { what: "a message", key: msgs },
      this.redis.run(sendScript, keys, [...how, room, ...readers]),
    );
    if (id < 0) throw new RoomNotFoundError(room);
    return id;
  }

  /** `limit` messages, or all; those that are not JSON are skipped. */
  async #page<M>(
    room: string,
    { direction, id, limit }: Range,
  ): Promise<readonly RoomMessage<M>[]> {
    const { msgs } = this.keys(room);
    const messages: RoomMessage<M>[] = [];
    for (let last = String(id), more = 1; more === 1 && messages.length < limit; ) {
      const args = [direction, last, limit - messages.length];
      const running = this.redis.run(pageScript, [msgs], args);
      const [rest, ...flat] = await refused({ what: "a page", key: msgs }, running);
      for (let i = 0; i + 1 < flat.length; i += 2) {
        const message = readMessage<M>(room, flat[i] as string, flat[i + 1] as string);
        if (message === undefined)
          this.redis.logger.warn({ room, id: flat[i + 1] }, "a message is no JSON");
        else messages.push(message);
      }
      last = flat.at(-1) ?? last;
      more = rest;
    }
    return messages;
  }

  async #placesIn(
    key: string,
    limit: number,
    after: OrderedPlace | undefined,
  ): Promise<readonly OrderedPlace[]> {
    const args = [limit, after?.cursor ?? "", after?.name ?? ""];
    const flat = await this.redis.run(placesScript, [key], args);
    const places: OrderedPlace[] = [];
    for (let i = 0; i + 1 < flat.length; i += 2) {
      places.push({ name: flat[i] as string, cursor: Number(flat[i + 1]) });
    }
    return places;
  }

  #ask<T extends Reply>(...command: string[]): Promise<T> {
    const key = roomCounterKey(this.options.prefix);
    return this.redis.send<T>(command, { repeatable: true, key });
  }
}

/** XREAD's reply, a list of pairs in RESP2 and a map in RESP3, flattened. */
function liveEntries(reply: Reply): readonly LiveEntry[] {
  if (reply === null) return [];
  const entries: LiveEntry[] = [];
  for (const [key, list] of reply as unknown as [string, [string, string[]][]][]) {
    for (const [streamId, [kind = "", value = ""]] of list)
      entries.push({ key, streamId, kind, value });
  }
  return entries;
}
