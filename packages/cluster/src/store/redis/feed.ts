/**
 * Wakes the watches of a client when the log grows: one blocked XREAD for all of them, on a stream and
 * not on a channel, so that a user without channel permissions can watch. It says only that there is
 * something; each watch then reads on from its own position, so a wake-up that is lost, doubled
 * or early does no harm.
 */

import type { Logger, Redis } from "@ropeway/core";
import { type BlockingConnection, Loop, reasonOf, within } from "@ropeway/core/internal";
import { CLOSE_WITHIN_MS } from "../limits.ts";
import type { RedisStoreKeys } from "./keys.ts";

const BLOCK_MS = 5_000;
const LAST_OF_REVISION = "18446744073709551615";

/** What a feed needs. */
export interface FeedPlan {
  readonly redis: Redis;
  readonly keys: RedisStoreKeys;
  readonly logger: Logger;
}

/** The feed of one client; runs while a watch waits. */
export class Feed {
  readonly #plan: FeedPlan;
  /** Wakes each watch that waits, with the revision it has read. */
  readonly #waiting = new Map<() => void, number>();
  /** By watch: the last revision that it was woken for. */
  readonly #told = new WeakMap<AbortSignal, number>();
  #connection: BlockingConnection | undefined;
  #loop: Loop | undefined;
  #seen = 0;
  #closed = false;

  constructor(plan: FeedPlan) {
    this.#plan = plan;
  }

  /**
   * Resolves when the log has grown past `revision`, at the latest after 5 s, or on abort. The signal is the
   * watch's own.
   */
  async wait(revision: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.#closed) return;
    this.#start();
    // The log grew while the watch was busy, and the blocked XREAD begins behind that: it reads at once. Only
    // once: if the store has lost its data, no revision is as high as what was seen before.
    if (this.#seen > revision && this.#told.get(signal) !== this.#seen) {
      this.#told.set(signal, this.#seen);
      return;
    }
    this.#seen = revision;
    this.#wake((read) => read < revision); // XREAD may begin behind what these have not read
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        this.#waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, BLOCK_MS);
      signal.addEventListener("abort", done, { once: true });
      this.#waiting.set(done, revision);
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#wake(() => true);
    // The reply of the blocked XREAD is not needed any more, so close() does not wait for a server that hangs.
    const closing = this.#connection?.close() ?? Promise.resolve();
    const closed = within(closing, { timeoutMs: CLOSE_WITHIN_MS }).catch(() => {});
    await Promise.all([closed, this.#loop?.close()]);
  }

  #start(): void {
    if (this.#loop !== undefined) return;
    this.#loop = new Loop({
      tick: (signal) => this.#tick(signal),
      onError: (error) => {
        this.#plan.logger.debug({ err: reasonOf(error) }, "cannot wait for changes");
        this.#wake(() => true);
      },
      closeWithinMs: CLOSE_WITHIN_MS,
    }).start();
  }

  async #tick(signal: AbortSignal): Promise<number> {
    const { redis, keys } = this.#plan;
    this.#connection ??= await redis.blocking("store-watch", keys.log);
    if (signal.aborted) await this.#connection.close(); // close() did not wait for it
    signal.throwIfAborted();
    const reply = await this.#connection.send<Reply>(
      [
        ...["XREAD", "COUNT", "1", "BLOCK", String(BLOCK_MS), "STREAMS", keys.log],
        `${this.#seen}-${LAST_OF_REVISION}`,
      ],
      { blockMs: BLOCK_MS, signal },
    );
    const id = reply?.[0]?.[1]?.[0]?.[0];
    if (id !== undefined) this.#seen = Math.max(this.#seen, Number(id.split("-", 1)[0]));
    this.#wake(() => true);
    return 0;
  }

  #wake(which: (read: number) => boolean): void {
    for (const [wake, read] of [...this.#waiting]) if (which(read)) wake();
  }
}

type Reply = readonly [string, readonly [string, readonly string[]][]][];
