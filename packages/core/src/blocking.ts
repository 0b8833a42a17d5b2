/**
 * A connection for commands that block (BLPOP, BLMPOP, BZPOPMIN, XREAD BLOCK).
 *
 * CLIENT UNBLOCK over the ordinary connection ends its waits. Closing the socket would not be safe: a
 * server that has just popped an element for a closed socket has lost that element.
 */
import { Connection, type ConnectionPlan, isReply } from "./connection.ts";
import { AbortedError, type ConnectionLostError } from "./errors.ts";
import { explainReply, type Link } from "./link.ts";
import type { Reply } from "./reply.ts";
import type { ServerInfo } from "./server-info.ts";
import { LONGEST_TIMER_MS, requireSignal, sleep } from "./wait.ts";
import { whenAborted } from "./when-aborted.ts";

/** How to send a blocking command. */
export interface BlockingOptions {
  /** How long the server may take: the command's own timeout, in ms. */
  readonly blockMs: number;
  /** Ends the wait early; the reply is the same as after a timeout. */
  readonly signal?: AbortSignal | undefined;
  /** Return bulk strings as Buffers. */
  readonly binary?: boolean | undefined;
  /**
   * Return null at once, and set `moving`, when the slot of a key is moving to another node. The caller
   * can take its elements key by key meanwhile. @default false, wait until the slot has moved
   */
  readonly returnWhenMoving?: boolean | undefined;
}

/** The pause before a key is tried again whose slot is moving to another node. */
const MOVING_PAUSE_MS = 50;
const UNBLOCK_EVERY_MS = 20;
/** How many times a connection is checked within the silence after which it counts as dead. */
const LOOKS_PER_DEATH = 4;

/** The connection that blocking() lends. */
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
   * @internal Lent by Redis, never created by users.
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
   * Sends a command that may block. Resolves with null if the timeout, interrupt() or the signal ended the wait.
   * Only one at a time: a second one would wait behind the first.
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
    return this.#begin<T>(wait).finally(whenAborted(signal, () => this.#end(wait)));
  }

  /**
   * Sends ordinary commands while no command blocks; undefined while one does. If a blocking command is
   * sent directly after, both need only one write and one read. @internal
   */
  get whileFree(): Pick<Connection, "send"> | undefined {
    return this.#waits.size === 0 && this.#connection.connected ? this.#connection : undefined;
  }

  /** Whether the last command found a slot that is moving to another node; see returnWhenMoving. */
  get moving(): boolean {
    return this.#moving;
  }

  /**
   * Whether a wait can be ended early. False once the server has refused CLIENT UNBLOCK to this user; then
   * use short timeouts.
   */
  get interruptible(): boolean {
    return this.#interruptible;
  }

  /** Ends the current wait, if there is one. The reply is the same as after a timeout. */
  interrupt(): void {
    for (const wait of this.#waits) this.#end(wait);
  }

  /** Called when a slot is moving to another node: ends waits with returnWhenMoving. */
  slotMoves(): void {
    for (const wait of this.#waits) if (wait.options.returnWhenMoving) this.#end(wait);
  }

  /** Calls the listener at each connection loss; returns an unsubscribe function. */
  onLost(listener: (error: ConnectionLostError) => void): () => void {
    return this.#connection.onLost(listener);
  }

  /** Gives up the current link and locates the server again, for example after MOVED. */
  relocate(reason: unknown): void {
    this.#connection.relocate(reason);
  }

  /** Ends the current wait, delivers its reply, then closes. */
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

  /** The fast path for an open link; #persist handles everything else. */
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

  /** Waits on as many links as needed; `failure` is the error of an earlier attempt. */
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
            // The key has moved and its slot will follow: MOVED will report when and where.
            if (performance.now() > until) return null;
            await sleep(MOVING_PAUSE_MS);
          } else throw error;
        }
      }
    } finally {
      this.#waits.delete(wait);
    }
  }

  /** Waits on one link. A repetition on another link (UNBLOCKED, READONLY) calls this again. */
  #waitOn<T extends Reply>(link: Link, wait: Wait): Promise<T | null> {
    if (wait.ended) return Promise.resolve(null);
    wait.link = link;
    wait.until = performance.now() + wait.options.blockMs;
    wait.received = link.received;
    this.#watchdog ??= this.#watch();
    return link.send(wait.args, wait.options.binary) as Promise<T | null>;
  }

  /**
   * A heartbeat cannot pass a command that blocks, so exceeding its own timeout by far takes its place. While
   * no command blocks, there are heartbeats for the commands of whileFree. All waits share one timer, because one
   * timer each would cost more than the waits.
   */
  #watch(): NodeJS.Timeout {
    const { deadAfterMs } = this.#plan.link;
    const look = () => {
      if (this.#waits.size === 0) void this.#connection.current?.beat();
      const now = performance.now();
      for (const wait of this.#waits) {
        const received = wait.link?.received ?? 0;
        if (received !== wait.received) wait.until = Math.max(wait.until, now); // a large reply is arriving
        wait.received = received;
        if (wait.until >= now - deadAfterMs) continue;
        // Not at the first check: after a pause of this process, its timers run before its sockets are
        // read, and the reply with the popped element may be unread.
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

  /** The user has no permission to unblock, so waits end only by their own timeout. */
  #refused(error: unknown): void {
    if (!this.#interruptible) return;
    this.#interruptible = false;
    const hint = "allow +client|unblock to the user to end waits early";
    this.#plan.logger.warn({ err: error }, `CLIENT UNBLOCK is refused: ${hint}`);
  }

  /** The unblocking can overtake the command and then has no effect, so it is repeated until the wait is over. */
  async #unblockUntilOver(wait: Wait): Promise<void> {
    while (this.#waits.has(wait)) {
      const { link } = wait;
      try {
        if (link?.alive && link.clientId !== undefined) await this.#unblock(link);
      } catch (error) {
        if (explainReply(error, "CLIENT")?.prefix === "NOPERM") {
          this.#refused(error);
          return;
        }
        this.#plan.logger.debug({ err: error }, "cannot unblock yet");
      }
      await sleep(UNBLOCK_EVERY_MS);
    }
  }
}

/** Whether a slot of the command is moving to another node. */
function isMoving(error: unknown): boolean {
  const prefix = explainReply(error, "")?.prefix;
  return prefix === "ASK" || prefix === "TRYAGAIN";
}

/** One blocking command. */
class Wait {
  readonly args: readonly (string | Buffer)[];
  readonly options: BlockingOptions;
  /** The link on which it waits. */
  link: Link | undefined = undefined;
  /** The link on which it was overdue at the last check. */
  overdue: Link | undefined = undefined;
  /** How many bytes its link had received at the last check. */
  received = 0;
  /** When the server should have replied, or sent the last part of its reply. */
  until: number = Number.POSITIVE_INFINITY;
  /** Whether the wait has been ended. */
  ended = false;
  /** Also ends the wait for a link, if there is one. */
  abort: AbortController | undefined = undefined;

  constructor(args: readonly (string | Buffer)[], options: BlockingOptions) {
    this.args = args;
    this.options = options;
  }
}
