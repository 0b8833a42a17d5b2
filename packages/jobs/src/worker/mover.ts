/**
 * Runs move.lua when something is due: delays that are over, expired leases, timers. Every reply of Redis
 * contains the next due time. The mover sleeps until then, but never longer than MOST_MS or a lease, in
 * case a hint was lost or another worker took a job meanwhile.
 */
import { Loop } from "@ropeway/core/internal";
import type { Relay } from "../flow/relay.ts";
import type { QueueStore } from "../store/queue-store.ts";

const AT_ONCE = 500;
const MOST_MS = 5_000;
/** Redis returns times in ms, rounded down. After this margin the job is certainly due. */
const MARGIN_MS = 1;
/** The delay before a message to another queue is sent again. */
const AGAIN_MS = 500;

/** The options of a mover. */
export interface MoverOptions {
  readonly leaseMs: number;
  readonly relay: Relay;
  /** Called when jobs were moved to where they can be taken. */
  onMoved(): void;
  onError(error: unknown): void;
}

/** One queue's mover in one worker. */
export class Mover {
  readonly #store: QueueStore;
  readonly #options: MoverOptions;
  readonly #loop: Loop;
  #nextAt = 0;
  #mostMs: number;

  constructor(store: QueueStore, options: MoverOptions) {
    this.#store = store;
    this.#options = options;
    this.#mostMs = Math.min(MOST_MS, options.leaseMs);
    this.#loop = new Loop({ tick: () => this.#tick(), onError: options.onError });
  }

  start(): void {
    this.#loop.start();
  }

  /** Without the control channel there are no hints: check at least this often. */
  lookEvery(ms: number): void {
    this.#mostMs = Math.min(this.#mostMs, ms);
  }

  /** Something is due in `ms`. A negative number means that nothing is due. */
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
    this.#nextAt = Number.POSITIVE_INFINITY; // hints that arrive during the call count
    const { moved, stalled, nextMs, outbox } = await this.#store.move(AT_ONCE);
    if (moved > 0) this.#options.onMoved();
    if (moved >= AT_ONCE || stalled >= AT_ONCE) {
      this.#nextAt = 0;
      return 0;
    }
    let pause = nextMs < 0 ? this.#mostMs : Math.min(this.#mostMs, nextMs + MARGIN_MS);
    if (outbox > 0) pause = Math.min(pause, await this.#deliver());
    this.#nextAt = Math.min(this.#nextAt, performance.now() + pause);
    return Math.max(0, this.#nextAt - performance.now());
  }

  /** Delivers the outbox. Returns the ms until it is checked again. */
  async #deliver(): Promise<number> {
    const delivered = await this.#options.relay.deliver();
    return delivered > 0 ? 0 : AGAIN_MS;
  }
}
