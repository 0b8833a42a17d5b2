/**
 * How many jobs to fetch ahead. A slot that ends its job should find the next one here instead of waiting
 * for a round trip. During one trip, `concurrency` slots end (trip / handler time) jobs each. Slow handlers
 * need no jobs ahead, and then none are withheld from other workers. Large jobs are not
 * fetched ahead in large numbers: the jobs in memory are bounded in bytes. So is a single call, because Redis copies
 * all of its jobs before it serves anybody else.
 */
const WEIGHT = 0.1; // weight of the newest sample in a moving average
const MOST_BYTES = 4 << 20;
const MOST_PER_CALL = 500;
/** The maximum of the first call, because the size of the jobs is unknown. */
const FIRST_CALL = 50;

/** Measures the duration of a round trip and of a handler, and the size of a job. */
export class Prefetch {
  readonly #concurrency: number;
  readonly #most: number;
  #tripMs = 0;
  #handlerMs = Number.NaN;
  #jobBytes = 0;

  constructor(concurrency: number, most: number) {
    this.#concurrency = concurrency;
    this.#most = Math.min(most, Math.max(50, concurrency * 2));
  }

  trip(ms: number): void {
    this.#tripMs = this.#tripMs === 0 ? ms : this.#tripMs + (ms - this.#tripMs) * WEIGHT;
  }

  handled(ms: number): void {
    this.#handlerMs = Number.isNaN(this.#handlerMs)
      ? ms
      : this.#handlerMs + (ms - this.#handlerMs) * WEIGHT;
  }

  /** A larger average applies at once, a smaller one slowly. */
  received(bytes: number, jobs: number): void {
    const size = bytes / jobs;
    this.#jobBytes = Math.max(size, this.#jobBytes + (size - this.#jobBytes) * WEIGHT);
  }

  /** The most jobs that one call takes. */
  get perCall(): number {
    if (this.#jobBytes === 0) return FIRST_CALL;
    return Math.max(1, Math.min(MOST_PER_CALL, Math.floor(MOST_BYTES / this.#jobBytes)));
  }

  /** 0 until the first job has ended, because its duration is unknown. */
  get ahead(): number {
    if (Number.isNaN(this.#handlerMs)) return 0;
    const ended = (this.#concurrency * this.#tripMs) / Math.max(this.#handlerMs, 0.001);
    return Math.min(this.#most, Math.round(ended), Math.floor(MOST_BYTES / (this.#jobBytes + 1)));
  }
}
