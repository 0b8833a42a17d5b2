/**
 * Refuses calls of an overloaded worker before they are read, so that the calls it does run are still
 * wanted. A call carries its timeout (`to`), so the time that it has waited is known from its deadline:
 *
 *   age = now - (deadline - timeout)
 *
 * Two limits on the age: `maxQueueAgeMs` always, and `targetDelayMs` while the queue has not been empty
 * for `intervalMs` (controlled delay, as in CoDel): a burst may wait, a standing queue may not.
 */
import { resolveOptions } from "@ropeway/core/internal";
import { type LoadSheddingOptions, loadSheddingTable } from "../options.ts";
import type { IncomingCall } from "../wire/dialect.ts";

/** Decides which calls are refused. */
export class LoadShedder {
  readonly #options: Required<LoadSheddingOptions>;
  /** When each list was last seen empty; by performance.now(). */
  readonly #emptyAt = new Map<string, number>();
  readonly #startedAt = performance.now();

  constructor(options: LoadSheddingOptions) {
    this.#options = resolveOptions(loadSheddingTable, options);
  }

  get maxQueueLength(): number | undefined {
    return this.#options.maxQueueLength;
  }

  /** A pop took fewer calls than it could have: the list is empty now. */
  noteEmpty(list: string): void {
    this.#emptyAt.set(list, performance.now());
  }

  /** Why a call is refused; undefined if it is not. `now` is Redis time. */
  refusal(list: string, call: IncomingCall, now: number): string | undefined {
    const { deadline, timeoutMs } = call;
    if (deadline === undefined || timeoutMs === undefined) return undefined;
    const age = now - (deadline - timeoutMs);
    const { maxQueueAgeMs, targetDelayMs, intervalMs } = this.#options;
    if (maxQueueAgeMs !== undefined && age > maxQueueAgeMs) return waited(age, maxQueueAgeMs);
    if (targetDelayMs === undefined || age <= targetDelayMs) return undefined;
    const emptyAt = this.#emptyAt.get(list) ?? this.#startedAt;
    return performance.now() - emptyAt > intervalMs ? waited(age, targetDelayMs) : undefined;
  }
}

function waited(age: number, limit: number): string {
  return `the call waited ${Math.round(age)} ms, more than ${limit} ms`;
}
