/**
 * The chat room of a channel. Any sender may end the channel, and any may use it again, at any moment. So a receiver
 * leaves only if the end is still the newest message, and a file is announced together with those of its
 * receivers that have left: each is one step.
 */
import type { Redis } from "@ropeway/core";
import { Chat } from "../chat/chat.ts";
import { NotAMemberError, RoomExistsError, RoomNotFoundError } from "../chat/errors.ts";
import type { ChatEvent } from "../chat/feed.ts";
import { messageJson, type RoomMessage } from "../chat/message.ts";
import { resolveChatOptions } from "../chat/options.ts";
import type { Room } from "../chat/room.ts";
import { ChatStore } from "../chat/store.ts";
import { checkName } from "../keyspace.ts";
import { kitMetrics } from "../metrics.ts";
import { END } from "./announcement.ts";
import { SENDER } from "./options.ts";

/** The room of one channel. */
export class ChannelRoom {
  readonly #channel: string;
  readonly #chat: Chat<unknown>;
  readonly #room: Room<unknown>;
  readonly #store: ChatStore;

  constructor(redis: Redis, channel: string, prefix: string) {
    this.#channel = channel;
    this.#chat = new Chat<unknown>(redis, { prefix });
    this.#room = this.#chat.room(channel);
    this.#store = new ChatStore(redis, resolveChatOptions({ prefix }));
  }

  /** Makes the room, or adds the receivers to it. */
  async open(receivers: readonly string[]): Promise<void> {
    for (const receiver of receivers) checkName("a receiver", receiver);
    const room = { sender: SENDER, recipients: receivers, message: "", id: this.#channel };
    for (;;) {
      try {
        await this.#chat.create(room).catch(async (error) => {
          if (!(error instanceof RoomExistsError)) throw error;
          for (const user of [SENDER, ...receivers]) await this.#room.join(user);
        });
        return;
      } catch (error) {
        if (!(error instanceof RoomNotFoundError)) throw error; // its last receiver left meanwhile
      }
    }
  }

  /** Announces a file to its receivers. The sender has read the message: it must not keep it in the room. */
  async announce(message: unknown, receivers: readonly string[]): Promise<void> {
    const json = messageJson(message, this.#store.options.maxMessageBytes);
    for (;;) {
      try {
        const id = await this.#store.append(this.#channel, SENDER, { json, readers: receivers });
        kitMetrics().noteSent("chat");
        return await this.acknowledge(SENDER, { id });
      } catch (error) {
        if (!(error instanceof RoomNotFoundError)) throw error;
        await this.open(receivers);
      }
    }
  }

  /** Tells all receivers that the channel ends. Returns false if there is no room. */
  async end(): Promise<boolean> {
    try {
      await this.#room.send(SENDER, END);
    } catch (error) {
      if (error instanceof RoomNotFoundError) return false;
      throw error;
    }
    await this.#room.leave(SENDER);
    return true;
  }

  /** Leaves at the end of the channel; returns false, and stays, if the channel was used again after that end. */
  async leaveAt(end: RoomMessage<unknown>, receiver: string): Promise<boolean> {
    return (await this.#store.leave(this.#channel, receiver, end)) !== "stays";
  }

  /** Nothing to do in a room that was removed or made again meanwhile, or that another sender has ended. */
  async acknowledge(user: string, message: { id: number; sentAt?: number }): Promise<void> {
    try {
      await this.#store.acknowledge(this.#channel, user, message);
    } catch (error) {
      if (!(error instanceof NotAMemberError)) throw error;
    }
  }

  /** Messages after an id, oldest first. */
  after(id: number, limit: number): Promise<readonly RoomMessage<unknown>[]> {
    return this.#store.after(this.#channel, id, limit);
  }

  /** What happens in all rooms of a receiver. */
  feed(receiver: string, signal: AbortSignal): AsyncGenerator<ChatEvent<unknown>, void> {
    return this.#chat.feed(receiver, { signal });
  }
}
