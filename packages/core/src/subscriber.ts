/**
 * A connection that listens. After a loss every channel is subscribed again before the connection
 * counts as ready; what was published in between is gone, and the listeners are told by `onGap` so that
 * they can look for what they missed.
 */
import { Connection, type ConnectionPlan } from "./connection.ts";
import type { Link } from "./link.ts";
import { Listeners } from "./listeners.ts";

/** Gets each message of its channel. */
export type MessageListener = (message: Buffer, channel: string) => void;

/** What subscriber() lends. */
export class Subscriber implements AsyncDisposable {
  readonly #connection: Connection;
  readonly #plan: ConnectionPlan;
  readonly #channels = new Map<string, Set<MessageListener>>();
  readonly #gaps = new Listeners();
  #links = 0;

  constructor(plan: ConnectionPlan) {
    this.#plan = plan;
    this.#connection = new Connection({
      ...plan,
      prepare: async (link) => {
        await plan.prepare?.(link);
        for (const channel of this.#channels.keys()) await this.#listen(link, channel);
      },
    });
    this.#connection.onReady(() => {
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
    const listeners = this.#channels.get(channel);
    if (listeners !== undefined) {
      listeners.add(listener);
      return;
    }
    this.#channels.set(channel, new Set([listener]));
    await this.#listen(await this.#connection.link(this.#plan.offlineWaitMs), channel);
  }

  /** Stops one listener; the channel is left when nobody listens any more. */
  async unsubscribe(channel: string, listener: MessageListener): Promise<void> {
    const listeners = this.#channels.get(channel);
    if (listeners === undefined || !listeners.delete(listener) || listeners.size > 0) return;
    this.#channels.delete(channel);
    if (!this.#connection.connected) return; // the next link will not subscribe to it
    await (await this.#connection.link(0)).unsubscribe(channel);
  }

  /** Calls the listener after a loss was mended: messages in between were missed. */
  onGap(listener: () => void): () => void {
    return this.#gaps.add(listener);
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #listen(link: Link, channel: string): Promise<void> {
    return link.subscribe(channel, (message) => {
      for (const listener of this.#channels.get(channel) ?? []) listener(message, channel);
    });
  }
}
