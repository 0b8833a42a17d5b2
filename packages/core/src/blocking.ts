/**
 * A connection that is allowed to wait inside a command (BLPOP, BLMPOP, BZPOPMIN, XREAD BLOCK).
 *
 * Its waits are ended by CLIENT UNBLOCK over the ordinary connection, never by closing the socket: a
 * server that has just popped an element for a socket that is gone has lost that element.
 */
import { Connection, type ConnectionPlan, isReply } from "./connection.ts";
import type { ConnectionLostError } from "./errors.ts";
import type { Link } from "./link.ts";
import type { Reply } from "./reply.ts";
import type { ServerInfo } from "./server-info.ts";
import { sleep } from "./wait.ts";

/** How a blocking command is to be treated. */
export interface BlockingOptions {
  /** How long the server may take: the command's own timeout, in ms. */
  readonly blockMs: number;
  /** Ends the wait early: the command is answered as if its timeout had come. */
  readonly signal?: AbortSignal | undefined;
  /** Bulk strings come back as Buffers. */
  readonly binary?: boolean | undefined;
}

/** What blocking() lends. */
export class BlockingConnection implements AsyncDisposable {
  readonly #connection: Connection;
  readonly #plan: ConnectionPlan;
  readonly #unblock: (clientId: number) => Promise<unknown>;
  readonly #closing = new AbortController();
  #closed: Promise<void> | undefined;

  constructor(plan: ConnectionPlan, unblock: (clientId: number) => Promise<unknown>) {
    this.#plan = plan;
    this.#connection = new Connection(plan);
    this.#unblock = unblock;
  }

  async opened(waitMs: number): Promise<this> {
    await this.#connection.opened(waitMs);
    return this;
  }

  get server(): ServerInfo | undefined {
    return this.#connection.server;
  }

  /**
   * Sends a command that may block; null when its time, or the signal, ended the wait. One at a time:
   * a second one would stand behind the first.
   */
  async send<T extends Reply = Reply>(
    args: readonly (string | Buffer)[],
    options: BlockingOptions,
  ): Promise<T | null> {
    for (;;) {
      const link = await this.#connection.link(this.#plan.offlineWaitMs);
      if (options.signal?.aborted || this.#closing.signal.aborted) return null;
      try {
        return await this.#sendOn<T>(link, args, options);
      } catch (error) {
        if (!isReply(error, "MOVED")) throw error;
        this.#connection.relocate(error); // the slot has a new owner; nothing was popped
      }
    }
  }

  /** Calls the listener at each loss; returns the way to stop that. */
  onLost(listener: (error: ConnectionLostError) => void): () => void {
    return this.#connection.onLost(listener);
  }

  /** Gives the current link up and finds the place anew, for example after MOVED. */
  relocate(reason: unknown): void {
    this.#connection.relocate(reason);
  }

  /** Ends the wait under way, delivers its answer, then closes. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#closing.abort();
    await this.#connection.close(); // waits for the answer under way, bounded
  }

  async #sendOn<T extends Reply>(
    link: Link,
    args: readonly (string | Buffer)[],
    options: BlockingOptions,
  ): Promise<T | null> {
    // No heartbeat can pass a command that blocks; its own timeout, well exceeded, takes its place.
    const guard = setTimeout(
      () => link.retire(new Error("a blocking command was not answered")),
      options.blockMs + this.#plan.link.deadAfterMs,
    );
    const wait: Wait = { clientId: link.clientId, over: false };
    const interrupt = () => void this.#interrupt(wait);
    options.signal?.addEventListener("abort", interrupt, { once: true });
    this.#closing.signal.addEventListener("abort", interrupt, { once: true });
    try {
      return await this.#connection.send<T>(args, { binary: options.binary });
    } finally {
      wait.over = true;
      clearTimeout(guard);
      options.signal?.removeEventListener("abort", interrupt);
      this.#closing.signal.removeEventListener("abort", interrupt);
    }
  }

  /** The unblocking can overtake the command, and then does nothing: it is repeated until it has. */
  async #interrupt(wait: Wait): Promise<void> {
    while (wait.clientId !== undefined && !wait.over) {
      try {
        await this.#unblock(wait.clientId);
      } catch (error) {
        this.#plan.logger.debug({ err: error }, "cannot unblock yet");
      }
      await sleep(20);
    }
  }
}

/** One command that blocks; a plain flag, because aborting a signal costs more than the command. */
interface Wait {
  readonly clientId: number | undefined;
  over: boolean;
}
