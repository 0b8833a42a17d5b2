/**
 * Dead letters, which are batches whose delivery was abandoned: list, show, replay and discard them, one
 * by one or by a filter.
 */

import type { Page } from "@ropeway/core";
import { UnknownLetterError } from "../errors.ts";
import { checkUrl, type Destination, destinationOf } from "../queue/destination.ts";
import { readItems } from "../queue/item.ts";
import { type MergeQueue, timeOf } from "../queue/queue.ts";
import { requireQueue } from "../queue/require-queue.ts";
import { LetterStore, type StoredLetter } from "../store/letter-store.ts";
import type { PeekedItem, PeekOptions } from "./inspector.ts";
import { checkMaxBytes, checkNames, nextPage, type PageOptions, pageOf } from "./paging.ts";

/** A batch whose delivery was abandoned. */
export interface DeadLetter {
  readonly id: string;
  readonly key: string;
  /** Its destination; undefined for a key that was not pushed for an endpoint. */
  readonly destination: Destination | undefined;
  readonly reason: string;
  readonly attempts: number;
  readonly items: number;
  /** When it became a dead letter, ms since 1970. */
  readonly at: number;
  /** The webhook-id it was sent under. */
  readonly delivery: string;
}

/** The conditions for dead letters; all must hold. */
export interface LetterFilter {
  /** Of this key. */
  readonly key?: string | undefined;
  /** Of this endpoint. */
  readonly url?: string | undefined;
  /** Whose reason contains this string. */
  readonly reason?: string | undefined;
  /** Abandoned at this time or later: a Date or ms since 1970. */
  readonly since?: Date | number | undefined;
  /** Abandoned at this time or earlier: a Date or ms since 1970. */
  readonly until?: Date | number | undefined;
}

/** How long dead letters are kept. */
export interface LetterRetention {
  readonly maxAgeMs: number;
  readonly maxCount: number;
}

/** The result of replayAll() or discardAll(). */
export interface LetterTotals {
  readonly letters: number;
  readonly items: number;
}

const FILTER_NAMES = ["key", "url", "reason", "since", "until"];
const CHUNK = 100;
const MAX_BYTES = 262_144;

/** Lists, replays and deletes the dead letters of a merge queue. */
export class DeadLetters {
  readonly #store: LetterStore;

  constructor(queue: MergeQueue) {
    requireQueue(queue);
    this.#store = new LetterStore(queue.redis, queue.keys);
  }

  /** The dead letters, newest first; with a filter a page may be short. */
  async list(options: LetterFilter & PageOptions = {}): Promise<Page<DeadLetter>> {
    const { from, limit } = pageOf(options);
    const matches = matcher(options);
    const ids = await this.#store.newest(options.key, from, limit);
    const found = await Promise.all(ids.map((id) => this.#read(id)));
    const items = found.filter((letter) => letter !== undefined).filter(matches);
    return { items, ...nextPage(ids.length < limit ? undefined : from + limit) };
  }

  /** One dead letter. Throws UnknownLetterError. */
  async get(id: string): Promise<DeadLetter> {
    const letter = await this.#read(id);
    if (letter === undefined) throw new UnknownLetterError(id);
    return letter;
  }

  /** Its items, oldest first, up to a number of bytes. Throws UnknownLetterError. */
  async items(id: string, options: PeekOptions = {}): Promise<Page<PeekedItem>> {
    const letter = await this.get(id);
    const { from, limit } = pageOf(options);
    let left = checkMaxBytes(options.maxBytes ?? MAX_BYTES);
    const items: PeekedItem[] = [];
    for (let i = from; i < from + limit && left > 0; i++) {
      const found = await this.#store.item(letter, i);
      if (found === undefined) return { items };
      const size = found.body.length;
      const [item] = readItems([found.head.toString("latin1")], [found.body.subarray(0, left)]);
      if (item !== undefined) items.push({ ...item, size });
      left -= size;
    }
    const next = from + items.length;
    return { items, ...nextPage(next >= letter.items ? undefined : next) };
  }

  /** Moves a dead letter back to its key. It is delivered before newer items. Returns its number of items. */
  async replay(id: string): Promise<number> {
    return this.#store.replay(await this.get(id));
  }

  /** Replays every matching letter, oldest first. Letters that are added meanwhile are not included. */
  replayAll(filter: LetterFilter = {}): Promise<LetterTotals> {
    return this.#each(filter, (letter) => this.#store.replay(letter));
  }

  /** Deletes a dead letter permanently. Returns its number of items. */
  async discard(id: string): Promise<number> {
    return this.#store.discard(await this.get(id));
  }

  /** Deletes every matching letter. Letters that are added meanwhile are not included. */
  discardAll(filter: LetterFilter = {}): Promise<LetterTotals> {
    return this.#each(filter, (letter) => this.#store.discard(letter));
  }

  /** Deletes letters that exceed the maximum age or number, a few hundred at a time. Returns their number. */
  async trim({ maxAgeMs, maxCount }: LetterRetention): Promise<number> {
    const until = String((await this.#store.now()) - maxAgeMs / 1_000);
    const old = await this.#store.oldest({ until, skip: 0, most: CHUNK });
    const excess = await this.#store.excess(maxCount, CHUNK);
    const ids = [...new Set([...old, ...excess])];
    for (const id of ids) {
      const letter = await this.#store.read(id);
      if (letter === undefined) await this.#store.forget(id);
      else await this.#store.discard(letter).catch(ignoreUnknown);
    }
    return ids.length;
  }

  async #each(
    filter: LetterFilter,
    act: (letter: DeadLetter) => Promise<number>,
  ): Promise<LetterTotals> {
    checkNames(filter, FILTER_NAMES); // a misspelt condition would match every letter
    const matches = matcher(filter);
    // A replayed letter that fails at once becomes a new letter, which must not be processed again.
    const until = String(await this.#store.now());
    let [letters, items, skip] = [0, 0, 0];
    for (;;) {
      const ids = await this.#store.oldest({ until, skip, most: CHUNK });
      if (ids.length === 0) return { letters, items };
      for (const id of ids) {
        const letter = await this.#read(id);
        if (letter === undefined) await this.#store.forget(id);
        else if (!matches(letter)) skip += 1;
        else {
          const acted = await act(letter).catch(ignoreUnknown);
          if (acted === undefined) continue;
          items += acted;
          letters += 1;
        }
      }
    }
  }

  async #read(id: string): Promise<DeadLetter | undefined> {
    const letter = await this.#store.read(id);
    return letter === undefined ? undefined : letterOf(letter);
  }
}

function letterOf(stored: StoredLetter): DeadLetter {
  const at = Math.round(stored.at * 1_000);
  return { ...stored, destination: destinationOf(stored.key), at };
}

function matcher({
  key,
  url,
  reason,
  since,
  until,
}: LetterFilter): (letter: DeadLetter) => boolean {
  const endpoint = url === undefined ? undefined : checkUrl(url);
  const from = since === undefined ? Number.NEGATIVE_INFINITY : timeOf(since);
  const to = until === undefined ? Number.POSITIVE_INFINITY : timeOf(until);
  return (letter) =>
    (key === undefined || letter.key === key) &&
    (endpoint === undefined || letter.destination?.url === endpoint) &&
    (reason === undefined || letter.reason.includes(reason)) &&
    letter.at >= from &&
    letter.at <= to;
}

/** Ignores a letter that another operator has already processed. */
function ignoreUnknown(error: unknown): undefined {
  if (error instanceof UnknownLetterError) return undefined;
  throw error;
}
