/**
 * Runs move.lua when something is due: delays that are over, leases that ran out, alarms. It knows the
 * time of the next one from every answer of Redis and sleeps until then, and never longer than MOST_MS,
 * in case a hint was lost.
 */
import { Loop } from "@ropeway/core/internal";
import type { QueueStore } from "./store.ts";

const AT_ONCE = 500;
const MOST_MS = 5_000;
/** Redis tells times in ms, rounded down: a moment later it is certainly due. */
const MARGIN_MS = 1;

/** What a mover tells. */
export interface MoverEvents {
  /** Jobs were moved to where they can be taken. */
  onMoved(): void;
  onError(error: unknown): void;
}

/** One queue's mover in one worker. */
export class Mover {
  readonly #store: QueueStore;
  readonly #events: MoverEvents;
  readonly #loop: Loop;
  #nextAt = 0;

  constructor(store: QueueStore, events: MoverEvents) {
    this.#store = store;
    this.#events = events;
    this.#loop = new Loop({ tick: () => this.#tick(), onError: events.onError });
  }

  start(): void {
    this.#loop.start();
  }

  /** Something is due in `ms`; negative: nothing is. */
  hint(ms: number): void {
    if (ms < 0) return;
    const at = performance.now() + ms;
    if (at >= this.#nextAt) return;
    this.#nextAt = at;
    this.#loop.wake();
  }

  close(): Promise<void> {
    return this.#loop.close();
  }

  async #tick(): Promise<number> {
    const early = this.#nextAt - performance.now();
    if (early > 0) return early;
    this.#nextAt = Number.POSITIVE_INFINITY; // hints that come during the call count
    const { moved, stalled, nextMs } = await this.#store.move(AT_ONCE);
    if (moved > 0) this.#events.onMoved();
    if (moved >= AT_ONCE || stalled >= AT_ONCE) {
      this.#nextAt = 0;
      return 0;
    }
    const pause = nextMs < 0 ? MOST_MS : Math.min(MOST_MS, nextMs + MARGIN_MS);
    this.#nextAt = Math.min(this.#nextAt, performance.now() + pause);
    return Math.max(0, this.#nextAt - performance.now());
  }
}
