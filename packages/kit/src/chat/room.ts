/** One room of a group chat. */

import { InvalidArgumentError, type Page, type Redis } from "@ropeway/core";
import { requireRedis } from "@ropeway/core/internal";
import { checkName } from "../keyspace.ts";
import { kitMetrics } from "../metrics.ts";
import { messageJson, type RoomMessage } from "./message.ts";
import {
  type ChatOptions,
  type HistoryOptions,
  type JoinOptions,
  resolveChatOptions,
  resolveHistoryOptions,
  resolveJoinOptions,
  resolvePlacesOptions,
} from "./options.ts";
import { cursorAfter, placeOf } from "./place-cursor.ts";
import { ChatStore } from "./store.ts";

/** `ids:` and this name are the key that counts rooms. */
export const NO_ROOM = "chat:";

const TYPING_MS = 5_000;
const PRESENT_MS = 30_000;

/** The state of a room. */
export interface RoomView {
  readonly id: string;
  readonly members: number;
  readonly messages: number;
  /** Id of the newest message, 0 if there was none. */
  readonly newest: number;
}

/** A member and how far it has read. */
export interface Member {
  readonly user: string;
  /** The id of the last message that it has acknowledged. */
  readonly cursor: number;
}

/** A room by its id; does nothing until it is used. */
export class Room<Message = unknown> {
  readonly id: string;
  readonly #store: ChatStore;

  constructor(redis: Redis, id: string, options?: ChatOptions) {
    requireRedis(redis);
    checkName("the id of a room", id);
    if (id === NO_ROOM) throw new InvalidArgumentError("id", id, `another string than "${id}"`);
    this.id = id;
    this.#store = new ChatStore(redis, resolveChatOptions(options));
  }

  /** Sends a message and returns its id. Throws RoomNotFoundError if the room has no members. */
  async send(sender: string, message: Message): Promise<number> {
    checkName("the sender", sender);
    const json = messageJson(message, this.#store.options.maxMessageBytes);
    const id = await this.#store.append(this.id, sender, { json });
    kitMetrics().noteSent("chat");
    return id;
  }

  /**
   * Adds a member, from now on or with the stored messages. An existing member keeps its cursor. Throws
   * RoomNotFoundError.
   */
  async join(user: string, options?: JoinOptions): Promise<void> {
    checkName("a user", user);
    const { history } = resolveJoinOptions(options);
    await this.#store.join(this.id, user, history);
  }

  /**
   * Removes a member. The room is removed with its last member. Returns false if the user was not a
   * member. If the connection is lost before the reply comes, the command is sent again, and false can
   * also mean that its first run has removed the member.
   */
  async leave(user: string): Promise<boolean> {
    return (await this.#store.leave(this.id, user)) !== undefined;
  }

  /** The messages that a member has not acknowledged, oldest first. Throws NotAMemberError. */
  async pending(
    user: string,
    options: { readonly limit?: number } = {},
  ): Promise<readonly RoomMessage<Message>[]> {
    const { limit } = resolveHistoryOptions(options);
    return this.#store.after<Message>(this.id, await this.#store.cursor(this.id, user), limit);
  }

  /**
   * Acknowledges all messages up to `id` for a member. The cursor moves forward only, so two
   * devices of one user cannot undo each other. Returns the cursor. Throws NotAMemberError.
   */
  async acknowledge(user: string, id: number): Promise<number> {
    if (!Number.isSafeInteger(id) || id < 0) {
      throw new InvalidArgumentError("id", id, "the id of a message");
    }
    return this.#store.acknowledge(this.id, user, { id });
  }

  /** How many messages a member has not acknowledged, those removed by retention included. */
  async unread(user: string): Promise<number> {
    const [cursor, [newest = 0]] = await Promise.all([
      this.#store.cursor(this.id, user),
      this.#store.newest([this.id]),
    ]);
    return Math.max(0, newest - cursor);
  }

  /** Messages that are kept, newest first. */
  async history(options?: HistoryOptions): Promise<Page<RoomMessage<Message>>> {
    const { cursor, limit } = resolveHistoryOptions(options);
    const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(cursor);
    const items = await this.#store.before<Message>(this.id, before, limit);
    const last = items.at(-1);
    return items.length < limit || last === undefined
      ? { items }
      : { items, cursor: String(last.id) };
  }

  /**
   * The members. Members with the most unread messages come first. One that acknowledges moves towards the end, so it
   * may be on two pages, but none is skipped.
   */
  async members(options?: HistoryOptions): Promise<Page<Member>> {
    const { cursor, limit } = resolvePlacesOptions(options);
    const found = await this.#store.members(this.id, limit + 1, placeOf(cursor));
    const places = found.slice(0, limit);
    const items = places.map(({ name: user, cursor: read }) => ({ user, cursor: read }));
    const last = places.at(-1);
    return last === undefined || found.length <= limit
      ? { items }
      : { items, ...cursorAfter(last) };
  }

  /** How many members and messages there are. */
  async inspect(): Promise<RoomView> {
    return { id: this.id, ...(await this.#store.counts(this.id)) };
  }

  /** Shows in live feeds that a member is typing, for `ttlMs`. Throws NotAMemberError. */
  setTyping(user: string, ttlMs: number = TYPING_MS): Promise<void> {
    return this.#note(user, { kind: "typing", ttlMs });
  }

  /** Shows in live feeds that a member is present, for `ttlMs`. Throws NotAMemberError. */
  setPresent(user: string, ttlMs: number = PRESENT_MS): Promise<void> {
    return this.#note(user, { kind: "present", ttlMs });
  }

  /** The members that are typing. */
  typing(): Promise<readonly string[]> {
    return this.#store.noted(this.id, "typing");
  }

  /** The members that are present. */
  present(): Promise<readonly string[]> {
    return this.#store.noted(this.id, "present");
  }

  async #note(user: string, note: { kind: "typing" | "present"; ttlMs: number }): Promise<void> {
    if (!Number.isSafeInteger(note.ttlMs) || note.ttlMs < 1 || note.ttlMs > 86_400_000) {
      throw new InvalidArgumentError("ttlMs", note.ttlMs, "whole milliseconds from 1 to 86400000");
    }
    await this.#store.note(this.id, user, note);
  }
}
