/**
 * How a process learns that one of its waits is over: a list of its own, on which it blocks while
 * anything waits.
 *
 *   releaser:  script says "token t is next; its process reads list L"  ->  wake.lua pushes to L
 *   waiter:    BLPOP L                                                  ->  the wait of token t ends
 *
 * Lists need no channel rights (ACL), keep a wake-up until it is read, and work across Cluster slots,
 * because the push is a command of its own. One connection serves every wait of the process under one
 * prefix. It is opened by the first wait and closed when none came for a while.
 *
 * Wake-ups only save time, and can be lost when a process dies. Every waiter therefore also polls (see
 * ../line.ts).
 */
import type { Redis } from "@ropeway/core";
import { Backoff, type BlockingConnection, newToken } from "@ropeway/core/internal";
import { headOf } from "../keyspace.ts";
import { wakeScript } from "../scripts.ts";

const BLOCK_MS = 5_000;
/** A wake-up that is not read, because its process died, is removed after this time. */
const KEEP_MS = 60_000;

/**
 * Takes what was pushed for one token; the token is the first word of it. `sentAt` is when the command was sent
 * that woke it, on the monotonic clock; absent if another process sent it.
 */
export type WakeListener = (message: string, sentAt?: number) => void;

/** A waiter that a script wakes: its list, and what to push there. */
export interface WakeUp {
  readonly list: string;
  readonly message: string;
}

const lists = new WeakMap<Redis, Map<string, WakeList>>();

/** The list of this process for one connection and prefix. */
export function wakeListOf(redis: Redis, prefix: string): WakeList {
  let ofRedis = lists.get(redis);
  if (ofRedis === undefined) {
    ofRedis = new Map();
    lists.set(redis, ofRedis);
  }
  let list = ofRedis.get(prefix);
  if (list === undefined) {
    list = new WakeList(redis, prefix);
    ofRedis.set(prefix, list);
  }
  return list;
}

/** The waits of one process. */
export class WakeList {
  /** list: the wake-ups for this process. */
  readonly key: string;
  readonly #redis: Redis;
  readonly #listeners = new Map<string, WakeListener>();
  /** Tokens that may be woken before their listener is there, and the wake-ups that came. */
  readonly #early = new Map<string, Parameters<WakeListener> | undefined>();
  #reading: Promise<void> | undefined;
  #closed = false;

  constructor(redis: Redis, prefix: string) {
    this.#redis = redis;
    this.key = `${headOf(prefix)}kit-wake:${newToken()}`;
  }

  /**
   * Keeps a wake-up of `token` for expect(). Called before the command that puts the token into a queue, because
   * the token can be woken before the caller has handled the reply. Opens no connection.
   */
  prepare(token: string): void {
    this.#early.set(token, undefined);
  }

  /** Calls the listener when `token` is woken, or at once if it was, until forget(). */
  expect(token: string, listener: WakeListener): void {
    const early = this.#early.get(token);
    this.#early.delete(token);
    this.#listeners.set(token, listener);
    if (early !== undefined) listener(...early);
    if (this.#listeners.has(token)) this.#reading ??= this.#readWhileExpected();
  }

  forget(token: string): void {
    this.#listeners.delete(token);
    this.#early.delete(token);
  }

  /** Wakes the waiters that a script named: in this process directly, in another one through its list. */
  deliver(wakeUps: readonly WakeUp[], sentAt?: number): void {
    for (const { list, message } of wakeUps) {
      if (list === this.key) this.#dispatch(message, sentAt);
      else {
        this.#redis.run(wakeScript, [list], [message, KEEP_MS]).catch((error) => {
          this.#redis.logger.debug({ err: error, list }, "cannot wake a waiter; it asks by itself");
        });
      }
    }
  }

  #dispatch(message: string, sentAt?: number): void {
    const space = message.indexOf(" ");
    const token = space < 0 ? message : message.slice(0, space);
    if (this.#early.has(token)) this.#early.set(token, [message, sentAt]);
    else this.#listeners.get(token)?.(message, sentAt);
  }

  async #readWhileExpected(): Promise<void> {
    // A wait may begin while the connection of the last one is being closed.
    do await this.#read();
    while (this.#listeners.size > 0 && !this.#closed);
    this.#reading = undefined;
  }

  async #read(): Promise<void> {
    const backoff = new Backoff({ baseMs: 50, maxMs: 2_000 });
    let connection: BlockingConnection | undefined;
    try {
      for (let idle = false; !idle; ) {
        try {
          connection ??= await this.#redis.blocking("kit-wake", this.key);
          const command = ["BLPOP", this.key, String(BLOCK_MS / 1_000)];
          const reply = await connection.send<readonly string[]>(command, { blockMs: BLOCK_MS });
          backoff.reset();
          if (reply !== null) this.#dispatch(reply[1] as string);
          idle = reply === null && this.#listeners.size === 0;
        } catch (error) {
          this.#closed = isClosed(error);
          if (this.#closed || this.#listeners.size === 0) return;
          this.#redis.logger.debug({ err: error }, "cannot wait for wake-ups");
          await new Promise((resolve) => setTimeout(resolve, backoff.next()).unref());
        }
      }
    } finally {
      await connection?.close();
    }
  }
}

function isClosed(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "CONNECTION_CLOSED";
}
