/**
 * How long things took, in buckets that grow with the value: 8 per power of two of microseconds, so a
 * percentile is right to within 9 %, whatever its size, in 256 numbers.
 */
const PER_OCTAVE = 8;
const BUCKETS = 32 * PER_OCTAVE;

/** The rate is taken over this time. */
const RATE_SECONDS = 10;

/** Counts durations and errors of one method. */
export class Histogram {
  readonly #buckets = new Uint32Array(BUCKETS);
  #count = 0;
  #errors = 0;
  #sumMs = 0;
  /** Calls in each of the last seconds, by second modulo length. */
  readonly #perSecond = new Uint32Array(RATE_SECONDS + 1);
  #second = 0;

  /** `at` is now, for callers that know it already. */
  record(ms: number, failed: boolean, at: number = performance.now()): void {
    const octaves = Math.log2(Math.max(1, ms * 1_000));
    const bucket = Math.min(BUCKETS - 1, Math.floor(octaves * PER_OCTAVE));
    this.#buckets[bucket] = (this.#buckets[bucket] ?? 0) + 1;
    this.#count += 1;
    this.#sumMs += ms;
    if (failed) this.#errors += 1;
    this.#turn(at);
    const slot = this.#second % this.#perSecond.length;
    this.#perSecond[slot] = (this.#perSecond[slot] ?? 0) + 1;
  }

  /** Forgets the seconds that have passed since the last call. */
  #turn(at: number): void {
    const second = Math.floor(at / 1_000);
    if (second <= this.#second) return;
    const passed = Math.min(second - this.#second, this.#perSecond.length);
    for (let i = 1; i <= passed; i++)
      this.#perSecond[(this.#second + i) % this.#perSecond.length] = 0;
    if (passed === this.#perSecond.length) this.#perSecond.fill(0);
    this.#second = second;
  }

  /** Calls per second over the last ten full seconds. */
  #rate(): number {
    this.#turn(performance.now());
    const current = this.#perSecond[this.#second % this.#perSecond.length] ?? 0;
    const total = this.#perSecond.reduce((sum, count) => sum + count, 0);
    return (total - current) / RATE_SECONDS;
  }

  /** The numbers so far. */
  snapshot(): MethodStats {
    return {
      calls: this.#count,
      errors: this.#errors,
      meanMs: this.#count === 0 ? 0 : round(this.#sumMs / this.#count),
      p50Ms: this.#percentile(0.5),
      p99Ms: this.#percentile(0.99),
      perSecond: this.#rate(),
    };
  }

  #percentile(part: number): number {
    let left = Math.ceil(this.#count * part);
    for (let i = 0; i < BUCKETS; i++) {
      left -= this.#buckets[i] ?? 0;
      if (left <= 0 && this.#count > 0) return round(2 ** ((i + 0.5) / PER_OCTAVE) / 1_000);
    }
    return 0;
  }
}

/** Figures about the calls of one method. */
export interface MethodStats {
  readonly calls: number;
  readonly errors: number;
  readonly meanMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Calls per second over the last ten seconds. */
  readonly perSecond: number;
}

function round(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}
