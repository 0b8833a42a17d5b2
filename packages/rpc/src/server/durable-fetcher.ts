/**
 * Fetches the calls of one at-least-once list, and brings back those of workers that died.
 *
 *   request list --BLMOVE/take--> in-flight list of this worker --settle--> answered and forgotten
 *         ^                                  |
 *         +---------- reclaim ---------------+   its lease (renewed with each heartbeat) has ended
 *
 * A call is at every instant in exactly one of the two lists until its response is written. A worker
 * fetches only what it has slots for. Several lists share the slots: when two of them get a call for the
 * last slot at the same moment, one of these waits here, under its lease.
 */
import type { Redis } from "@ropeway/core";
import { Loop } from "@ropeway/core/internal";
import type { DurableResponse, DurableStore } from "../store/durable-store.ts";
import type { Slots } from "./slots.ts";

/** What a durable fetcher is given. */
export interface DurableFetcherOptions {
  readonly redis: Redis;
  readonly store: DurableStore;
  readonly list: string;
  readonly slots: Slots;
  /** How often dead workers are looked for. */
  readonly reclaimEveryMs: number;
  /** Redis time in ms. */
  now(): number;
  /** Whether the worker is paused. */
  isHeld(): boolean;
  onCall(text: string): void;
  /** The maximum number of waiting calls. */
  readonly maxQueueLength: number | undefined;
  /** Refuses calls that are beyond it. */
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
  /** The calls of our in-flight list that this process knows of. */
  readonly #held = new Set<string>();
  /** Those of them that came once more while they were running. */
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

  /** Writes the response (empty for none) and forgets the call; false if another worker has it now. */
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
    if (this.#repeated.delete(call)) this.#unsure = true; // or to this one, if it was there twice
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

  /** Refuses the oldest calls of a queue that is too long. They are in flight until that is written. */
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
   * Runs a call as soon as there is a slot; one that has none when the worker closes is left in flight. A call
   * that runs here already was put back while this worker counted as dead, and came back to it: the response of
   * that run ends it. A second one beside it would send its stream between the items of the first.
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

  /** A reply that was lost may have moved calls into our list without our knowing. */
  async #recover(signal: AbortSignal): Promise<void> {
    const known = new Set(this.#held); // as it was: calls end while the reply is on its way, and later
    // At most as many calls as one take() asks for can have been moved without our knowing.
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
