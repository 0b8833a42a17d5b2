/**
 * Fetches the calls of one at-least-once list, and puts back the calls of workers that died.
 *
 *   request list --BLMOVE/take--> in-flight list of this worker --settle--> response written, call removed
 *         ^                                  |
 *         +---------- reclaim ---------------+   its lease (renewed with each heartbeat) has ended
 *
 * At every moment a call is in exactly one of the two lists until its response is written. A worker
 * fetches only as many calls as it has slots for. Several lists share the slots: when two of them get a call for the
 * last slot at the same moment, one call waits here, under its lease.
 */
import type { Redis } from "@ropeway/core";
import { Loop } from "@ropeway/core/internal";
import type { DurableResponse, DurableStore } from "../store/durable-store.ts";
import type { Slots } from "./slots.ts";

/** The options of a durable fetcher. */
export interface DurableFetcherOptions {
  readonly redis: Redis;
  readonly store: DurableStore;
  readonly list: string;
  readonly slots: Slots;
  /** How often to look for dead workers. */
  readonly reclaimEveryMs: number;
  /** Redis time in ms. */
  now(): number;
  /** Whether the worker is paused. */
  isHeld(): boolean;
  onCall(text: string): void;
  /** The maximum number of waiting calls. */
  readonly maxQueueLength: number | undefined;
  /** Refuses the calls beyond this maximum. */
  onExcess(texts: readonly string[]): void;
  onReclaimed(worker: string, calls: { readonly back: number; readonly aside: number }): void;
  onError(error: unknown): void;
}

const BUSY_CHECK_MS = 1_000;
const PER_SHED = 1_000;

/** The calls of one at-least-once list. */
export class DurableFetcher {
  readonly #options: DurableFetcherOptions;
  readonly #fetcher: Loop;
  readonly #reclaimer: Loop;
  /** The calls of this worker's in-flight list that this process knows. */
  readonly #held = new Set<string>();
  /** Known calls that arrived again while they were running. */
  readonly #repeated = new Set<string>();
  #unsure = true;

  constructor(options: DurableFetcherOptions) {
    this.#options = options;
    this.#fetcher = new Loop({
      tick: (signal) => this.#fetch(signal),
      onError: (error) => {
        this.#unsure = true;
        options.onError(error);
      },
      backoff: { baseMs: 10, maxMs: 1_000 },
    });
    this.#reclaimer = new Loop({
      tick: () => this.#reclaim(),
      onError: (error) => options.onError(error),
      backoff: { baseMs: 50, maxMs: options.reclaimEveryMs },
    });
  }

  start(): void {
    this.#fetcher.start();
    this.#reclaimer.start();
  }

  /** Takes calls again after a pause. */
  wake(): void {
    this.#fetcher.wake();
  }

  /** Writes the response (empty for none) and removes the call. Returns false if another worker has it now. */
  async settle(call: string, response: DurableResponse): Promise<boolean> {
    try {
      return await this.#options.store.settle(call, response);
    } catch (error) {
      this.#unsure = true; // still in the in-flight list, if Redis has not written the response
      throw error;
    } finally {
      this.abandon(call);
    }
  }

  /** Leaves a call, if it is still in flight, to the next worker. */
  abandon(call: string): void {
    this.#held.delete(call);
    if (this.#repeated.delete(call)) this.#unsure = true; // or to this one, if the call was there twice
  }

  /** Stops fetching. */
  async stop(): Promise<void> {
    await Promise.all([this.#fetcher.close(), this.#reclaimer.close()]);
    await this.#options.store.close();
  }

  async #fetch(signal: AbortSignal): Promise<number> {
    const { store, slots } = this.#options;
    if (this.#options.isHeld()) return BUSY_CHECK_MS;
    if (slots.free === 0) {
      await slots.freed(BUSY_CHECK_MS);
      await this.#shedExcess();
      return 0;
    }
    if (this.#unsure) await this.#recover(signal);
    const first = await store.next(signal);
    if (first === null) return 0;
    await this.#run(first, signal);
    const { free } = slots;
    for (const call of free > 0 ? await store.take(free) : []) await this.#run(call, signal);
    await this.#shedExcess();
    return 0;
  }

  /** Refuses the oldest calls of a queue that is too long. They stay in flight until the refusal is written. */
  async #shedExcess(): Promise<void> {
    const { store, maxQueueLength, onExcess } = this.#options;
    if (maxQueueLength === undefined) return;
    const excess = (await store.waiting()) - maxQueueLength;
    if (excess <= 0) return;
    const calls = await store.take(Math.min(excess, PER_SHED));
    for (const call of calls) this.#held.add(call);
    onExcess(calls);
  }

  /**
   * Runs a call as soon as there is a slot. If there is none when the worker closes, the call stays in flight. A call
   * that already runs here was put back while this worker counted as dead, and was fetched again. The response of
   * the first run ends it. A second run would send its stream between the items of the first.
   */
  async #run(call: string, signal: AbortSignal): Promise<void> {
    if (this.#held.has(call)) {
      this.#repeated.add(call);
      return;
    }
    this.#held.add(call);
    while (this.#options.slots.free === 0 && !signal.aborted) {
      await this.#options.slots.freed(BUSY_CHECK_MS);
    }
    if (signal.aborted) this.abandon(call);
    else this.#options.onCall(call);
  }

  /** If a reply was lost, calls may have been moved into the list without this process knowing them. */
  async #recover(signal: AbortSignal): Promise<void> {
    const known = new Set(this.#held); // a copy, because calls end while the reply is on its way, and later
    // At most as many calls as one take() requests can have been moved unnoticed.
    const { store, slots } = this.#options;
    const calls = await store.held(known.size + Math.max(slots.limit, PER_SHED));
    this.#unsure = false;
    for (const call of calls) if (!known.has(call)) await this.#run(call, signal);
  }

  async #reclaim(): Promise<number> {
    const { store, now, onReclaimed, reclaimEveryMs } = this.#options;
    for (const worker of await store.ended(now())) {
      const calls = await store.reclaim(worker);
      if (calls.back + calls.aside > 0) onReclaimed(worker, calls);
    }
    return reclaimEveryMs;
  }
}
