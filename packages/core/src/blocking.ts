/**
 * A connection that is allowed to wait inside a command (BLPOP, BLMPOP, BZPOPMIN, XREAD BLOCK).
 *
 * Its waits are ended by CLIENT UNBLOCK over the ordinary connection, never by closing the socket: a
 * server that has just popped an element for a socket that is gone has lost that element.
 */
import { Connection, type ConnectionPlan, isReply } from "./connection.ts";
import { AbortedError, type ConnectionLostError } from "./errors.ts";
import type { Link } from "./link.ts";
import type { Reply } from "./reply.ts";
import type { ServerInfo } from "./server-info.ts";
import { LONGEST_TIMER_MS, sleep } from "./wait.ts";

/** How a blocking command is to be treated. */
export interface BlockingOptions {
  /** How long the server may take: the command's own timeout, in ms. */
  readonly blockMs: number;
  /** Ends the wait early: the command is answered as if its timeout had come. */
  readonly signal?: AbortSignal | undefined;
  /** Bulk strings come back as Buffers. */
  readonly binary?: boolean | undefined;
}

/** How long a key is left alone whose slot is on its way to another node. */
const MOVING_PAUSE_MS = 50;

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
    const until = performance.now() + options.blockMs;
    const operation = {
      label: String(args[0]),
      repeatable: false,
      signal: options.signal,
      issue: (link: Link) => this.#waitOn<T>(link, args, options),
    };
    for (;;) {
      try {
        return await this.#connection.issue(operation);
      } catch (error) {
        if (error instanceof AbortedError) return null;
        if (isReply(error, "MOVED")) {
          this.#connection.relocate(error); // the slot has a new owner; nothing was popped
        } else if (isReply(error, "ASK")) {
          // The key is away and its slot about to follow: MOVED will say when and where to.
          if (performance.now() > until) return null;
          await sleep(MOVING_PAUSE_MS);
        } else throw error;
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

  /** Waits on one link; a repetition on another one (UNBLOCKED, READONLY) comes through here again. */
  async #waitOn<T extends Reply>(
    link: Link,
    args: readonly (string | Buffer)[],
    options: BlockingOptions,
  ): Promise<T | null> {
    if (options.signal?.aborted || this.#closing.signal.aborted) return null;
    // No heartbeat can pass a command that blocks; its own timeout, well exceeded, takes its place.
    const guard = setTimeout(
      () => link.retire(new Error("a blocking command was not answered")),
      Math.min(options.blockMs + this.#plan.link.deadAfterMs, LONGEST_TIMER_MS),
    );
    const wait: Wait = { clientId: link.clientId, over: false };
    const interrupt = () => void this.#interrupt(wait);
    options.signal?.addEventListener("abort", interrupt, { once: true });
    this.#closing.signal.addEventListener("abort", interrupt, { once: true });
    try {
      return (await link.send(args, options.binary)) as T | null;
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
