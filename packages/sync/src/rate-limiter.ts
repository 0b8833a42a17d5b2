/**
 * Slows the task down: by commands per second, by bytes per second, and by the latency of the target.
 *
 * The first two are token buckets of a tenth of a second. The third measures what a transaction costs
 * the target: while its round trip is longer than `latencyMs`, the pause between transactions doubles, and
 * halves again when it is shorter. So the target keeps enough capacity for its other clients.
 */
import { sleep } from "@ropeway/core/internal";

/** The limits; 0 means no limit. */
export interface RateLimits {
  readonly opsPerS: number;
  readonly bytesPerS: number;
  readonly latencyMs: number;
}

const BURST_S = 0.1;
const LONGEST_PAUSE_MS = 1_000;

/** The limiter shared by all shards of a task. */
export class RateLimiter {
  readonly #limits: RateLimits;
  readonly #signal: AbortSignal;
  #freeAt = 0;
  #pauseMs = 0;

  constructor(limits: RateLimits, signal: AbortSignal) {
    this.#limits = limits;
    this.#signal = signal;
  }

  /** Resolves when this much may be written; undefined if it may be written now. */
  admit(commands: number, bytes: number): Promise<void> | undefined {
    const { opsPerS, bytesPerS } = this.#limits;
    if (opsPerS === 0 && bytesPerS === 0 && this.#pauseMs === 0) return undefined;
    const now = performance.now();
    const costMs = Math.max(
      opsPerS === 0 ? 0 : (commands / opsPerS) * 1_000,
      bytesPerS === 0 ? 0 : (bytes / bytesPerS) * 1_000,
      this.#pauseMs,
    );
    this.#freeAt = Math.max(this.#freeAt, now - BURST_S * 1_000) + costMs;
    const waitMs = this.#freeAt - now;
    return waitMs <= 0 ? undefined : sleep(waitMs, this.#signal);
  }

  /** Adjusts the pause to the duration of a round trip. */
  observe(roundTripMs: number): void {
    const { latencyMs } = this.#limits;
    if (latencyMs === 0) return;
    if (roundTripMs > latencyMs) this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2 || 1);
    else if (this.#pauseMs > 0) this.#pauseMs = this.#pauseMs < 1 ? 0 : this.#pauseMs / 2;
  }
}
