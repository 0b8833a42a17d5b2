/**
 * A connection for subscriptions. After a loss, every channel is subscribed again before the connection
 * is ready. Messages published in between are lost, and `onGap` notifies the listeners so that they
 * can find out what they missed.
 *
 * A subscription that resolved lasts until unsubscribe(); one that was rejected leaves nothing behind.
 * Every link gets the same listener, so a channel that is subscribed twice (by the new link and
 * by a subscribe() that waited for it) still delivers each message once.
 */
import { Connection, type ConnectionPlan } from "./connection.ts";
import { type ChannelListener, explainReply } from "./link.ts";
import { Listeners } from "./listeners.ts";

/** Receives each message of its channel. */
export type MessageListener = (message: Buffer, channel: string) => void;

/** The connection that subscriber() lends. */
export class Subscriber implements AsyncDisposable {
  readonly #connection: Connection;
  readonly #channels = new Map<string, Set<MessageListener>>();
  readonly #gaps = new Listeners();
  readonly #deliver: ChannelListener = (message, bytes) => {
    const channel = String(bytes);
    for (const listener of this.#channels.get(channel) ?? []) listener(message, channel);
  };
  /** The channels that the newest link subscribed to before it was ready. */
  #joined: readonly string[] = [];
  #links = 0;

  /** @internal Lent by Redis, never created by users. */
  constructor(plan: ConnectionPlan) {
    this.#connection = new Connection({
      ...plan,
      prepare: async (link) => {
        await plan.prepare?.(link);
        this.#joined = [...this.#channels.keys()];
        await Promise.all(this.#joined.map((channel) => link.subscribe(channel, this.#deliver)));
      },
    });
    this.#connection.onReady(() => {
      this.#leaveUnwanted();
      this.#links += 1;
      if (this.#links > 1) this.#gaps.tell();
    });
  }

  async opened(waitMs: number): Promise<this> {
    await this.#connection.opened(waitMs);
    return this;
  }

  /** Listens on a channel; resolves when the server has confirmed it. */
  async subscribe(channel: string, listener: MessageListener): Promise<void> {
    const listeners = this.#channels.get(channel) ?? new Set();
    const known = listeners.has(listener);
    this.#channels.set(channel, listeners.add(listener));
    try {
      await this.#connection.issue({
        label: "SUBSCRIBE",
        repeatable: true,
        // After a loss, nobody may want it any more.
        issue: async (link) => {
          if (this.#channels.has(channel)) await link.subscribe(channel, this.#deliver);
        },
      });
    } catch (error) {
      if (!known) this.#remove(channel, listener);
      throw error;
    }
  }

  /** Removes one listener. The channel is left when it has no listeners. */
  async unsubscribe(channel: string, listener: MessageListener): Promise<void> {
    if (!this.#remove(channel, listener)) return;
    if (!this.#connection.connected) return; // the next link will not subscribe to it
    const link = await this.#connection.link(0);
    if (this.#channels.has(channel)) return; // subscribed again meanwhile
    try {
      await link.unsubscribe(channel);
    } catch (error) {
      const reply = explainReply(error, "UNSUBSCRIBE");
      if (reply !== undefined) throw reply;
      // the link was lost, and the channel with it
    }
  }

  /** Calls the listener after the connection was restored, because messages in between were missed. */
  onGap(listener: () => void): () => void {
    return this.#gaps.add(listener);
  }

  /** Gives up the current link and locates the server again; counts as a gap. */
  relocate(reason: unknown): void {
    this.#connection.relocate(reason);
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Leaves channels that were left while the newest link subscribed to them. */
  #leaveUnwanted(): void {
    for (const channel of this.#joined) {
      if (this.#channels.has(channel)) continue;
      this.#connection.current?.unsubscribe(channel).catch(() => {}); // only a loss, which ends it as well
    }
    this.#joined = [];
  }

  /** Removes one listener. Returns whether it was the channel's last. */
  #remove(channel: string, listener: MessageListener): boolean {
    const listeners = this.#channels.get(channel);
    if (!listeners?.delete(listener) || listeners.size > 0) return false;
    return this.#channels.delete(channel);
  }
}
