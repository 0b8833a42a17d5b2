/**
 * Decides the length of slices and the time for repeating disturbed ones.
 *
 * All slices of a full run have the same length. A quick run has a time limit: before each scenario the
 * remaining time is divided among the remaining slices, minus the measured overhead per slice. All slices
 * of a scenario have the same length, so that they are comparable.
 */

/** The time limits of a run. */
export interface Allowance {
  /** The length of a slice, or the maximum length if there is a time limit. */
  readonly sliceMs: number;
  /** The time limit of the whole run. Undefined for no limit. */
  readonly endMs: number | undefined;
  /** The total time for repeating disturbed slices. */
  readonly retryMs: number;
}

const SHORTEST_SLICE_MS = 30;
const FIRST_OVERHEAD_MS = 10;

/** Divides the time of a run among its slices. */
export class Pace {
  readonly #allowance: Allowance;
  readonly #slices: number;
  readonly #now: () => number;
  readonly #startedAt: number;
  #slicesLeft: number;
  #retryLeftMs = 0;
  #overheadMs = FIRST_OVERHEAD_MS;

  constructor(allowance: Allowance, slices: number, now: () => number = () => performance.now()) {
    this.#allowance = allowance;
    this.#slices = this.#slicesLeft = slices;
    this.#now = now;
    this.#startedAt = now();
  }

  /** Begins a scenario with this number of slices. Returns the length of each slice. */
  begin(slices: number): number {
    const { sliceMs, endMs, retryMs } = this.#allowance;
    const left = this.#startedAt + (endMs ?? Number.POSITIVE_INFINITY) - this.#now();
    const each = left / this.#slicesLeft - this.#overheadMs;
    this.#slicesLeft -= slices;
    this.#retryLeftMs += retryMs * (slices / this.#slices);
    return Math.round(Math.min(sliceMs, Math.max(SHORTEST_SLICE_MS, each)));
  }

  /** Records the overhead of a slice, which is its duration minus its length. */
  noteOverhead(ms: number): void {
    // A moving average, because the overhead changes with the load of the machine.
    this.#overheadMs += (Math.max(0, ms) - this.#overheadMs) * 0.05;
  }

  /** Whether there is time to repeat a slice that took this long. If so, reserves that time. */
  mayRepeat(tookMs: number): boolean {
    if (this.#retryLeftMs < tookMs) return false;
    this.#retryLeftMs -= tookMs;
    return true;
  }
}
