/** The operator's view of the keys: inspection, deletion, pause and immediate delivery. */

import { InvalidArgumentError, type Page } from "@ropeway/core";
import { reasonOf } from "@ropeway/core/internal";
import { checkKey } from "../keys.ts";
import { type Destination, destinationOf } from "../queue/destination.ts";
import { type Item, readItems } from "../queue/item.ts";
import type { MergeQueue } from "../queue/queue.ts";
import { requireQueue } from "../queue/require-queue.ts";
import { AdminStore } from "../store/admin-store.ts";
import { msOf } from "../store/queue-store.ts";
import { countOf, type PeekReply } from "../store/scripts.ts";
import { checkLimit, checkMaxBytes, nextPage, type PageOptions, pageOf } from "./paging.ts";

/** A key with items. */
export interface PendingKey {
  readonly key: string;
  /** Its destination; undefined for a key that was not pushed for an endpoint. */
  readonly destination: Destination | undefined;
  /** When it fires, ms since 1970. While its batch is out, when the lease ends. */
  readonly at: number | undefined;
  readonly items: number;
  /**
   * `sending`: a dispatcher has it. `retrying`: it failed and waits for the next attempt. `broken`: it
   * cannot be read, and `error` contains the reason.
   */
  readonly state: "waiting" | "sending" | "retrying" | "broken";
  /** An operator has paused it. */
  readonly paused: boolean;
  readonly attempts: number;
  /** Why the last attempt failed. */
  readonly error: string | undefined;
}

/** An item as an operator sees it. */
export interface PeekedItem extends Item {
  /** The size of the whole body. If it is larger than that of `body`, `body` was cut. */
  readonly size: number;
}

/** A key and a page of its items, oldest first. */
export interface PeekedKey extends PendingKey {
  readonly data: Readonly<Record<string, string>>;
  readonly oldest: readonly PeekedItem[];
  /** The cursor of the next page of items; absent on the last one. */
  readonly cursor?: string;
}

/** The keys to list. */
export interface ListOptions extends PageOptions {
  /** Only keys that contain this string. */
  readonly search?: string | undefined;
}

/** The items to show, and their maximum number of bytes. */
export interface PeekOptions extends PageOptions {
  /** The maximum number of bytes of all bodies together. @default 262144 */
  readonly maxBytes?: number | undefined;
}

/** The result of a deletion. */
export interface Removed {
  /** Items that were deleted. */
  readonly deleted: number;
  /** How many of them are being sent at this moment and cannot be cancelled. */
  readonly sending: number;
}

/** The queue in numbers. */
export interface MergeStats {
  /** Keys with items. */
  readonly keys: number;
  readonly due: number;
  readonly deadLetters: number;
  readonly endpoints: number;
  /** How long the oldest due key has been due, ms; 0 if none is. */
  readonly oldestDueMs: number;
  /** Whether an operator paused everything. */
  readonly paused: boolean;
  /** Keys that are paused individually. */
  readonly pausedKeys: number;
  /** Keys that were set aside because their list has another type. */
  readonly broken: number;
  /** Origins whose circuit breaker is open or half open. */
  readonly openBreakers: number;
}

const MAX_BYTES = 262_144;

/** Lists, searches, deletes and pauses the keys of a merge queue. */
export class Inspector {
  readonly #queue: MergeQueue;
  readonly #store: AdminStore;

  constructor(queue: MergeQueue) {
    requireQueue(queue);
    this.#queue = queue;
    this.#store = new AdminStore(queue.redis, queue.keys);
  }

  /** The keys, soonest first. With a search they are unordered, and a page may be short or empty. */
  async list(options: ListOptions = {}): Promise<Page<PendingKey>> {
    const { search } = options;
    if (search !== undefined && search !== "") return this.#search(search, options);
    const { from, limit } = pageOf(options);
    const found = await this.#store.keysByTime(from, limit);
    const items = await Promise.all(found.map((key) => this.#pending(key)));
    return { items, ...nextPage(found.length < limit ? undefined : from + limit) };
  }

  /** One key and its oldest items, up to a number of bytes. */
  async peek(key: string, options: PeekOptions = {}): Promise<PeekedKey> {
    checkKey(key);
    const { from, limit } = pageOf(options);
    const maxBytes = checkMaxBytes(options.maxBytes ?? MAX_BYTES);
    const seen = await this.#store.peek(key, { from, most: limit, maxBytes });
    const oldest = readItems(seen.heads, seen.bodies).map((item, i) => ({
      ...item,
      size: seen.sizes[i] ?? item.body.length,
    }));
    const next = from + oldest.length;
    const isLast = next >= seen.items || oldest.length === 0;
    const cursor = nextPage(isLast ? undefined : next);
    return { ...pendingOf(key, seen), data: seen.data, oldest, ...cursor };
  }

  /** Fires the key now. Returns its number of items. */
  async sendNow(key: string): Promise<number> {
    checkKey(key);
    return this.#store.sendNow(key);
  }

  /** Deletes all items that are queued under the key. */
  async remove(key: string): Promise<Removed> {
    checkKey(key);
    return this.#store.remove(key, this.#queue.options.idempotencyMs);
  }

  /** Keeps everything, or one key, from being handed out until resume(). Pushes are still accepted. */
  async pause(key?: string): Promise<void> {
    if (key === undefined) return this.#store.pauseAll();
    checkKey(key);
    return this.#store.pauseKey(key);
  }

  /** Ends the pause of everything, or of one key. Returns whether there was a pause. */
  async resume(key?: string): Promise<boolean> {
    return this.#store.resume(key);
  }

  /** The time of Redis, ms since 1970, which the queue uses. */
  now(): Promise<number> {
    return this.#store.now();
  }

  /**
   * Resolves if dispatchers can work. Throws WrongKeyTypeError if another program's value has replaced the
   * timer, the schedules or the paused keys, and NotConnectedError while Redis is unreachable.
   */
  check(): Promise<void> {
    return this.#store.check();
  }

  /** The queue in numbers. */
  stats(): Promise<MergeStats> {
    return this.#store.counts();
  }

  /**
   * Redis decides how many keys a page of ZSCAN has. The cursor contains how many of them were shown. A
   * change of the set between two pages can repeat or skip a key.
   */
  async #search(
    search: string,
    { cursor = "0", limit = 50 }: PageOptions,
  ): Promise<Page<PendingKey>> {
    checkLimit(limit);
    const [, scan, shown = "0"] = /^(\d{1,20})(?:\.(\d{1,9}))?$/.exec(cursor) ?? [];
    if (scan === undefined || BigInt(scan) >= 2n ** 64n) {
      throw new InvalidArgumentError("cursor", cursor, "the cursor of an earlier page");
    }
    const { next, keys } = await this.#store.scan(scan, search);
    const end = Number(shown) + limit;
    const items = await Promise.all(
      keys.slice(Number(shown), end).map((key) => this.#pending(key)),
    );
    if (keys.length > end) return { items, cursor: `${scan}.${end}` };
    return { items, ...nextPage(next === "0" ? undefined : next) };
  }

  /** Reads one key of the timer. A value that another program put there must not hide the other keys. */
  async #pending(key: string): Promise<PendingKey> {
    try {
      checkKey(key);
      return pendingOf(key, await this.#store.peek(key, { from: 0, most: 0, maxBytes: 1 }));
    } catch (error) {
      if (!this.#queue.redis.connected) throw error;
      const nothing = { destination: undefined, at: undefined, items: 0, paused: false };
      return { ...nothing, key, attempts: 0, state: "broken", error: reasonOf(error) };
    }
  }
}

function pendingOf(key: string, { score, items, lockMs, state, paused }: PeekReply): PendingKey {
  const isOut = state.batch !== undefined;
  return {
    key,
    destination: destinationOf(key),
    at: score === undefined ? undefined : msOf(score),
    items,
    state: lockMs !== -2 ? "sending" : isOut ? "retrying" : "waiting",
    paused,
    attempts: countOf(state.attempts),
    error: state.error,
  };
}
