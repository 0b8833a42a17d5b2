/**
 * A connection that is allowed to wait inside a command (BLPOP, BLMPOP, BZPOPMIN, XREAD BLOCK).
 *
 * Its waits are ended by CLIENT UNBLOCK over the ordinary connection, never by closing the socket: a
 * server that has just popped an element for a socket that is gone has lost that element.
 */
import { Connection, type ConnectionPlan, isReply } from "./connection.ts";
import { AbortedError, type ConnectionLostError } from "./errors.ts";
import { explainReply, type Link } from "./link.ts";
import type { Reply } from "./reply.ts";
import type { ServerInfo } from "./server-info.ts";
import { LONGEST_TIMER_MS, requireSignal, sleep } from "./wait.ts";

/** How a blocking command is to be treated. */
export interface BlockingOptions {
  /** How long the server may take: the command's own timeout, in ms. */
  readonly blockMs: number;
  /** Ends the wait early: the command is answered as if its timeout had come. */
  readonly signal?: AbortSignal | undefined;
  /** Bulk strings come back as Buffers. */
  readonly binary?: boolean | undefined;
  /**
   * Return null at once, and set `moving`, when a key's slot is on its way to another node: the caller
   * can take its elements key by key meanwhile. @default false, wait until the slot has moved
   */
  readonly returnWhenMoving?: boolean | undefined;
}

/** How long a key is left alone whose slot is on its way to another node. */
const MOVING_PAUSE_MS = 50;
const UNBLOCK_EVERY_MS = 20;
/** How often a connection is looked at within the silence that means its death. */
const LOOKS_PER_DEATH = 4;

/** What blocking() lends. */
export class BlockingConnection implements AsyncDisposable {
  readonly #connection: Connection;
  readonly #plan: ConnectionPlan;
  readonly #unblock: (link: Link) => Promise<unknown>;
  readonly #waits = new Set<Wait>();
  #watchdog: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;
  #moving = false;
  #interruptible = true;

  /**
   * `unblock` ends the wait on a link, over an ordinary connection to the same server.
   * @internal Lent by Redis, never made by users.
   */
  constructor(plan: ConnectionPlan, unblock: (link: Link) => Promise<unknown>) {
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
   * Sends a command that may block; null when its time, interrupt() or the signal ended the wait. One
   * at a time: a second one would stand behind the first.
   */
  send<T extends Reply = Reply>(
    args: readonly (string | Buffer)[],
    options: BlockingOptions,
  ): Promise<T | null> {
    const wait = new Wait(args, options);
    const { signal } = options;
    requireSignal(signal);
    wait.ended = signal?.aborted === true || this.#closed !== undefined;
    if (signal === undefined) return this.#begin<T>(wait);
    const onAbort = () => this.#end(wait);
    signal.addEventListener("abort", onAbort, { once: true });
    return this.#begin<T>(wait).finally(() => signal.removeEventListener("abort", onAbort));
  }

  /**
   * Takes ordinary commands while nobody waits on it; undefined while somebody does. With one that
   * blocks sent right behind, both cost one write here and one read there. @internal
   */
  get whileFree(): Pick<Connection, "send"> | undefined {
    return this.#waits.size === 0 && this.#connection.connected ? this.#connection : undefined;
  }

  /** Whether the last command met a slot on its way to another node; see returnWhenMoving. */
  get moving(): boolean {
    return this.#moving;
  }

  /**
   * Whether a wait can be ended early. False once the server has refused CLIENT UNBLOCK to this user: wait
   * for short times then.
   */
  get interruptible(): boolean {
    return this.#interruptible;
  }

  /** Ends the current wait, if there is one: it is answered as if its time had come. */
  interrupt(): void {
    for (const wait of this.#waits) this.#end(wait);
  }

  /** A slot is on its way to another node: ends the waits that want to know; see returnWhenMoving. */
  slotMoves(): void {
    for (const wait of this.#waits) if (wait.options.returnWhenMoving) this.#end(wait);
  }

  /** Calls the listener at each loss; returns an unsubscribe function. */
  onLost(listener: (error: ConnectionLostError) => void): () => void {
    return this.#connection.onLost(listener);
  }

  /** Gives the current link up and finds the place anew, for example after MOVED. */
  relocate(reason: unknown): void {
    this.#connection.relocate(reason);
  }

  /** Ends the current wait, delivers its answer, then closes. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.interrupt();
    await this.#connection.close(); // waits for the pending reply, bounded
    clearInterval(this.#watchdog);
  }

  /** The short way, for a link that is there; anything else is for #persist. */
  #begin<T extends Reply>(wait: Wait): Promise<T | null> {
    this.#waits.add(wait);
    const link = this.#connection.current;
    if (link === undefined) return this.#persist<T>(wait);
    return this.#waitOn<T>(link, wait).then(
      (reply) => {
        this.#waits.delete(wait);
        this.#moving = false;
        return reply;
      },
      (error) => {
        if (!wait.options.returnWhenMoving || !isMoving(error))
          return this.#persist<T>(wait, error);
        this.#waits.delete(wait);
        this.#moving = true;
        return null;
      },
    );
  }

  /** Waits on as many links as it takes; `failure` is that of an attempt made already. */
  async #persist<T extends Reply>(wait: Wait, failure?: unknown): Promise<T | null> {
    const until = performance.now() + wait.options.blockMs;
    wait.abort = new AbortController();
    if (wait.ended) wait.abort.abort();
    const operation = {
      label: String(wait.args[0]),
      repeatable: false,
      signal: wait.abort.signal,
      issue: (link: Link) => this.#waitOn<T>(link, wait),
    };
    try {
      for (let earlier = failure; ; earlier = undefined) {
        try {
          return await this.#connection.issue(operation, earlier);
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
    } finally {
      this.#waits.delete(wait);
    }
  }

  /** Waits on one link; a repetition on another one (UNBLOCKED, READONLY) comes through here again. */
  #waitOn<T extends Reply>(link: Link, wait: Wait): Promise<T | null> {
    if (wait.ended) return Promise.resolve(null);
    wait.link = link;
    wait.until = performance.now() + wait.options.blockMs;
    this.#watchdog ??= this.#watch();
    return link.send(wait.args, wait.options.binary) as Promise<T | null>;
  }

  /**
   * No heartbeat can pass a command that blocks; its own timeout, well exceeded, takes its place. While
   * none does there are heartbeats, for what goes whileFree. One timer for all waits: one each would
   * cost more than the waits themselves.
   */
  #watch(): NodeJS.Timeout {
    const { deadAfterMs } = this.#plan.link;
    const look = () => {
      if (this.#waits.size === 0) void this.#connection.current?.beat();
      const dead = performance.now() - deadAfterMs;
      for (const wait of this.#waits) {
        if (wait.until >= dead) continue;
        // Not at the first look: after a stop of this process its timers run before its sockets are
        // read, and the answer, with what was popped, may lie there unread.
        if (wait.overdue === wait.link) {
          wait.link?.retire(new Error("a blocking command was not answered"));
        }
        wait.overdue = wait.link;
      }
    };
    return setInterval(look, Math.min(deadAfterMs / LOOKS_PER_DEATH, LONGEST_TIMER_MS)).unref();
  }

  #end(wait: Wait): void {
    if (wait.ended) return;
    wait.ended = true;
    wait.abort?.abort();
    void this.#unblockUntilOver(wait);
  }

  /** The server's user may not unblock: waits end by their own timeout only. */
  #refused(error: unknown): void {
    if (!this.#interruptible) return;
    this.#interruptible = false;
    const hint = "allow +client|unblock to the user to end waits early";
    this.#plan.logger.warn({ err: error }, `CLIENT UNBLOCK is refused: ${hint}`);
  }

  /** The unblocking can overtake the command, and then does nothing: it is repeated until it has. */
  async #unblockUntilOver(wait: Wait): Promise<void> {
    while (this.#waits.has(wait)) {
      const { link } = wait;
      try {
        if (link?.alive && link.clientId !== undefined) await this.#unblock(link);
      } catch (error) {
        if (isReply(error, "NOPERM")) {
          this.#refused(error);
          return;
        }
        this.#plan.logger.debug({ err: error }, "cannot unblock yet");
      }
      await sleep(UNBLOCK_EVERY_MS);
    }
  }
}

/** Whether a slot of the command is on its way to another node. */
function isMoving(error: unknown): boolean {
  const prefix = explainReply(error, "")?.prefix;
  return prefix === "ASK" || prefix === "TRYAGAIN";
}

/** One command that blocks. */
class Wait {
  readonly args: readonly (string | Buffer)[];
  readonly options: BlockingOptions;
  /** Where it waits. */
  link: Link | undefined = undefined;
  /** The link on which it was found overdue at the last look. */
  overdue: Link | undefined = undefined;
  /** When the server should have answered. */
  until: number = Number.POSITIVE_INFINITY;
  /** Nobody wants it to go on. */
  ended = false;
  /** Ends also the waiting for a link, if it came to that. */
  abort: AbortController | undefined = undefined;

  constructor(args: readonly (string | Buffer)[], options: BlockingOptions) {
    this.args = args;
    this.options = options;
  }
}
