/**
 * How long slices are, and how much time may go into repeating disturbed ones.
 *
 * A full run has slices of one length. A quick run has an end: before each scenario what is left of
 * the time is shared out over the slices that are left, less what a slice was seen to cost besides its
 * own length. Within a scenario all slices are equally long, or they could not be compared.
 */

/** What a run may take. */
export interface Allowance {
  /** The length of a slice; the greatest length when there is an end. */
  readonly sliceMs: number;
  /** When everything is to be over; undefined for no end. */
  readonly endMs: number | undefined;
  /** The time for repeating disturbed slices, in all. */
  readonly retryMs: number;
}

const SHORTEST_SLICE_MS = 30;
const FIRST_OVERHEAD_MS = 10;

/** Shares out a run's time over its slices. */
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

  /** A scenario of so many slices begins: how long each of them is. */
  begin(slices: number): number {
    const { sliceMs, endMs, retryMs } = this.#allowance;
    const left = this.#startedAt + (endMs ?? Number.POSITIVE_INFINITY) - this.#now();
    const each = left / this.#slicesLeft - this.#overheadMs;
    this.#slicesLeft -= slices;
    this.#retryLeftMs += retryMs * (slices / this.#slices);
    return Math.round(Math.min(sliceMs, Math.max(SHORTEST_SLICE_MS, each)));
  }

  /** Told of every slice: how much longer than its length it kept the run busy. */
  noteOverhead(ms: number): void {
    // A moving average: it depends on how busy the machine is at the moment.
    this.#overheadMs += (Math.max(0, ms) - this.#overheadMs) * 0.05;
  }

  /** Whether there is time to repeat what took so long; if so, that time is taken. */
  mayRepeat(tookMs: number): boolean {
    if (this.#retryLeftMs < tookMs) return false;
    this.#retryLeftMs -= tookMs;
    return true;
  }
}
