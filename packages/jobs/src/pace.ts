/**
 * How many jobs to fetch ahead. A slot that ends its job should find the next one here instead of waiting
 * for a round trip; during one trip `concurrency` slots end (trip / handler time) jobs each. Handlers that
 * take long need nothing ahead, and then nothing is held back from other workers.
 */
const WEIGHT = 0.1; // of the newest sample in a moving average

/** Learns the length of a round trip and of a handler. */
export class Pace {
  readonly #concurrency: number;
  readonly #most: number;
  #tripMs = 0;
  #handlerMs = Number.NaN;

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

  /** Nothing before the first job has ended: who knows how long they take. */
  get ahead(): number {
    if (Number.isNaN(this.#handlerMs)) return 0;
    const ended = (this.#concurrency * this.#tripMs) / Math.max(this.#handlerMs, 0.001);
    return Math.min(this.#most, Math.round(ended));
  }
}
