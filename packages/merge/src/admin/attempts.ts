/** The attempt log: the last deliveries of all dispatchers, for operators, as pages and as a feed. */

import type { Page } from "@ropeway/core";
import { InvalidArgumentError } from "@ropeway/core";
import { requireSignal, sleep } from "@ropeway/core/internal";
import type { LoggedAttempt } from "../delivery/attempt-log.ts";
import { checkUrl, destinationOf } from "../queue/destination.ts";
import type { MergeQueue } from "../queue/queue.ts";
import { requireQueue } from "../queue/require-queue.ts";
import { AttemptStore, type StoredAttempt } from "../store/attempt-store.ts";
import { checkLimit, nextPage } from "./paging.ts";

/** One attempt to deliver a batch. */
export interface Attempt extends LoggedAttempt {
  /** Its position in the log. */
  readonly entry: string;
}

/** The conditions for attempts; all must hold. */
export interface AttemptFilter {
  /** Of this key. */
  readonly key?: string | undefined;
  /** At this endpoint. */
  readonly url?: string | undefined;
  /** With this result. */
  readonly result?: Attempt["result"] | undefined;
}

/** The totals of all dispatchers of a queue, since its first attempt or the last FLUSHALL. */
export interface MergeTotals {
  /** Attempts by their result. */
  readonly deliveries: Readonly<Record<string, number>>;
  /** Items in the batches of these attempts, by result. */
  readonly items: Readonly<Record<string, number>>;
  /** Bytes of their bodies, by result. */
  readonly bytes: Readonly<Record<string, number>>;
  /** Attempts that failed, by a short reason: http_5xx, timeout, connection, blocked. */
  readonly failures: Readonly<Record<string, number>>;
  /** Attempts that were not the first of their batch. */
  readonly retries: number;
  /** How late first attempts were: counts by upper bound in ms ("inf" for the rest), not cumulative. */
  readonly lateness: {
    readonly buckets: Readonly<Record<string, number>>;
    readonly count: number;
    readonly sumMs: number;
  };
}

const CHUNK = 500;
const LOOK_MS = 250;

/** Reads the attempt log of a merge queue: about the last 10,000 attempts. */
export class Attempts {
  readonly #store: AttemptStore;

  constructor(queue: MergeQueue) {
    requireQueue(queue);
    this.#store = new AttemptStore(queue.redis, queue.keys);
  }

  /** The attempts, newest first; with a filter a page may be short or empty before the last. */
  async list(
    options: AttemptFilter & { cursor?: string | undefined; limit?: number | undefined } = {},
  ): Promise<Page<Attempt>> {
    const { cursor, limit = 50 } = options;
    checkLimit(limit);
    if (cursor !== undefined) checkEntry("cursor", cursor);
    const matches = matcher(options);
    const items: Attempt[] = [];
    const found = await this.#store.before(cursor, CHUNK);
    for (const stored of found) {
      const attempt = attemptOf(stored);
      if (attempt === undefined || !matches(attempt)) continue;
      items.push(attempt);
      if (items.length === limit) return { items, cursor: stored.entry };
    }
    return { items, ...nextPage(found.length < CHUNK ? undefined : found.at(-1)?.entry) };
  }

  /** The totals of all dispatchers. A dispatcher that is killed loses its last unwritten counts. */
  async totals(): Promise<MergeTotals> {
    const all = Object.entries(await this.#store.totals());
    const by = (group: string) =>
      Object.fromEntries(
        all
          .filter(([name]) => name.startsWith(`${group}:`))
          .map(([name, count]) => [name.slice(group.length + 1), count]),
      );
    const only = (name: string) => Object.fromEntries(all)[name] ?? 0;
    return {
      ...{ deliveries: by("deliveries"), items: by("items"), bytes: by("bytes") },
      ...{ failures: by("failures"), retries: only("retries") },
      lateness: { buckets: by("late"), count: only("latecount"), sumMs: only("latesum") },
    };
  }

  /** Attempts as they happen, after an entry or starting now, until the signal aborts. */
  async *follow(
    options: AttemptFilter & { after?: string | undefined; signal?: AbortSignal | undefined } = {},
  ): AsyncGenerator<Attempt, void, undefined> {
    const { after, signal } = options;
    requireSignal(signal);
    if (after !== undefined) checkEntry("after", after);
    const matches = matcher(options);
    let last = after ?? (await this.#store.before(undefined, 1))[0]?.entry ?? "0-0";
    while (signal?.aborted !== true) {
      const found = await this.#store.after(last, CHUNK);
      for (const stored of found) {
        last = stored.entry;
        const attempt = attemptOf(stored);
        if (attempt !== undefined && matches(attempt)) yield attempt;
      }
      if (found.length === CHUNK) continue;
      await sleep(LOOK_MS, signal).catch(() => {}); // aborted: the loop ends
    }
  }
}

function matcher({ key, url, result }: AttemptFilter): (attempt: Attempt) => boolean {
  const endpoint = url === undefined ? undefined : checkUrl(url);
  return (attempt) =>
    (key === undefined || attempt.key === key) &&
    (endpoint === undefined || destinationOf(attempt.key)?.url === endpoint) &&
    (result === undefined || attempt.result === result);
}

/** Decodes an entry; undefined if another program wrote it. */
function attemptOf({ entry, json }: StoredAttempt): Attempt | undefined {
  try {
    const attempt: unknown = JSON.parse(json);
    return isAttempt(attempt) ? { ...attempt, entry } : undefined;
  } catch {
    return undefined;
  }
}

function checkEntry(name: string, entry: string): void {
  if (/^\d{1,15}-\d{1,15}$/.test(entry)) return;
  throw new InvalidArgumentError(name, entry, "the entry of an attempt, such as 1700000000000-0");
}

const RESULTS: readonly string[] = ["delivered", "partial", "invalid", "retry", "dead"];

function isAttempt(value: unknown): value is LoggedAttempt {
  if (typeof value !== "object" || value === null) return false;
  const given = value as Readonly<Record<string, unknown>>;
  const isText = (name: string) => typeof given[name] === "string";
  const isCount = (name: string) => Number.isSafeInteger(given[name]);
  const isOptional = (name: string, type: string) =>
    given[name] === undefined || typeof given[name] === type;
  return (
    ["key", "batch"].every(isText) &&
    ["attempt", "items", "bytes", "ms", "at"].every(isCount) &&
    Math.abs(Number(given.at)) <= 8.64e15 &&
    RESULTS.includes(String(given.result)) &&
    ["reason", "response"].every((name) => isOptional(name, "string")) &&
    isOptional("status", "number")
  );
}
