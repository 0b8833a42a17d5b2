/**
 * Pops several elements at once from the first non-empty list, and waits if all are empty.
 *
 *   Redis >= 7   BLMPOP t n list.. RIGHT COUNT c                     one round trip
 *   before       BRPOP list.. t, then RPOP list c-1                  two, the second without waiting
 *   slot moving  RPOP list c, for one list after the other           Cluster refuses several keys then
 */
import type { Redis } from "@ropeway/core";
import { atLeast, type BlockingConnection, sleep } from "@ropeway/core/internal";
import type { PushBuffer } from "./push-buffer.ts";

/** The popped elements of a list, oldest first. */
export interface Popped {
  readonly list: string;
  readonly texts: readonly string[];
  /** When the first of them arrived; by performance.now(). */
  readonly at: number;
}

/** The options of one pop. */
export interface PopOptions {
  /** The maximum number of elements. */
  readonly count: number;
  readonly blockMs: number;
}

/** The options of a popper. */
export interface PopperOptions {
  readonly side: "RIGHT" | "LEFT";
  /** Whether the server supports BLMPOP. */
  readonly modern: boolean;
}

const MOVING_PAUSE_MS = 20;
/** The timeout of a pop that cannot be ended early, because the user has no permission for CLIENT UNBLOCK. */
const UNINTERRUPTED_MS = 100;

/** Pops many lists on one blocking connection. */
export class ListPopper {
  readonly #redis: Redis;
  readonly #connection: BlockingConnection;
  readonly #side: "RIGHT" | "LEFT";
  readonly #modern: boolean;

  constructor(redis: Redis, connection: BlockingConnection, how: PopperOptions) {
    this.#redis = redis;
    this.#connection = connection;
    this.#side = how.side;
    this.#modern = how.modern;
  }

  /**
   * Resolves with null if the timeout, or an interruption of the connection, ended the wait. Not async, because
   * with one call in flight each promise on its way is noticeable.
   */
  pop(lists: readonly string[], given: PopOptions): Promise<Popped | null> {
    const { interruptible } = this.#connection;
    const options = interruptible
      ? given
      : { ...given, blockMs: Math.min(given.blockMs, UNINTERRUPTED_MS) };
    return this.#modern ? this.#popMany(lists, options) : this.#popThenMore(lists, options);
  }

  /** The result of a pop that found nothing. */
  #popNothing(lists: readonly string[], options: PopOptions): Promise<Popped | null> | null {
    return this.#connection.moving ? this.#popEach(lists, options) : null;
  }

  /** While a slot moves to another node, the ordinary connection finds each key on its node. */
  async #popEach(lists: readonly string[], { count }: PopOptions): Promise<Popped | null> {
    for (const list of lists) {
      const command = [this.#verb, list, String(count)];
      const texts = await this.#redis.send<string[] | null>(command, { key: list });
      if (texts !== null) return { list, texts, at: performance.now() };
    }
    await sleep(MOVING_PAUSE_MS);
    return null;
  }

  get #verb(): "RPOP" | "LPOP" {
    return this.#side === "RIGHT" ? "RPOP" : "LPOP";
  }

  #popMany(lists: readonly string[], options: PopOptions): Promise<Popped | null> {
    const { count, blockMs } = options;
    const command = ["BLMPOP", seconds(blockMs), String(lists.length), ...lists];
    command.push(this.#side, "COUNT", String(count));
    return this.#connection
      .send<[string, string[]]>(command, { blockMs, returnWhenMoving: true })
      .then((reply) =>
        reply === null
          ? this.#popNothing(lists, options)
          : { list: reply[0], texts: reply[1], at: performance.now() },
      );
  }

  async #popThenMore(lists: readonly string[], options: PopOptions): Promise<Popped | null> {
    const { count, blockMs } = options;
    const verb = this.#verb;
    const first = [`B${verb}`, ...lists, seconds(blockMs)];
    const reply = await this.#connection.send<[string, string]>(first, {
      blockMs,
      returnWhenMoving: true,
    });
    if (reply === null) return this.#popNothing(lists, options);
    const [list, text] = reply;
    const at = performance.now();
    if (count === 1) return { list, texts: [text], at };
    try {
      const command = [verb, list, String(count - 1)];
      const more = await this.#connection.send<string[]>(command, { blockMs: 0 });
      return { list, texts: [text, ...(more ?? [])], at };
    } catch {
      return { list, texts: [text], at }; // popped elements are delivered, whatever happens to the rest
    }
  }
}

/**
 * Resolves when it is time for the next pop: at once if the pushes that the last one caused are sent with it, and
 * otherwise when they have been written, so that they arrive first. Without `pushes`: when everything
 * sent in this turn of the event loop has been written.
 */
export function leaves(pushes?: PushBuffer): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      if (pushes?.rides) resolve();
      else setImmediate(resolve);
    };
    // The first runs before the flush of the pushes, which was scheduled meanwhile; the second runs after it.
    process.nextTick(() => process.nextTick(go));
  });
}

/** Whether the server supports BLMPOP. */
export function hasBlmpop(redis: Redis): boolean {
  return atLeast(redis.server, [7, 0]);
}

function seconds(ms: number): string {
  return String(Math.max(ms, 1) / 1_000);
}
