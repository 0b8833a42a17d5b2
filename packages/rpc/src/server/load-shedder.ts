/**
 * Refuses calls of an overloaded worker before they are read, so that callers still wait for the calls that
 * run. A call carries its timeout (`to`), so its waiting time follows from its deadline:
 *
 *   age = now - (deadline - timeout)
 *
 * Two limits on the age: `maxQueueAgeMs` always, and `targetDelayMs` when every call of the last
 * `intervalMs` was older than that (controlled delay, as in CoDel): a burst may wait, a standing queue
 * may not.
 */
import { resolveOptions } from "@ropeway/core/internal";
import { type LoadSheddingOptions, loadSheddingTable } from "../options.ts";
import type { IncomingCall } from "../wire/dialect.ts";

/** Decides which calls are refused. */
export class LoadShedder {
  readonly #options: Required<LoadSheddingOptions>;
  /** When each list last had a call that was young enough; by performance.now(). */
  readonly #youngAt = new Map<string, number>();

  constructor(options: LoadSheddingOptions) {
    this.#options = resolveOptions(loadSheddingTable, options);
  }

  get maxQueueLength(): number | undefined {
    return this.#options.maxQueueLength;
  }

  /** The reason to refuse a call; undefined if it is accepted. `now` is Redis time. */
  refusal(list: string, call: IncomingCall, now: number): string | undefined {
    const { deadline, timeoutMs } = call;
    if (deadline === undefined || timeoutMs === undefined) return undefined;
    const age = now - (deadline - timeoutMs);
    const { maxQueueAgeMs, targetDelayMs, intervalMs } = this.#options;
    if (maxQueueAgeMs !== undefined && age > maxQueueAgeMs) return waited(age, maxQueueAgeMs);
    if (targetDelayMs === undefined) return undefined;
    const at = performance.now();
    const youngAt = this.#youngAt.get(list);
    if (age <= targetDelayMs || youngAt === undefined) this.#youngAt.set(list, at);
    else if (at - youngAt > intervalMs) return waited(age, targetDelayMs);
    return undefined;
  }
}

function waited(age: number, limit: number): string {
  return `the call waited ${Math.round(age)} ms, more than ${limit} ms`;
}
