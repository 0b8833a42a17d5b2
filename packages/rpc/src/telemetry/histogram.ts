/**
 * How long things took, in buckets that grow with the value: 8 per power of two of microseconds, so a
 * percentile is right to within 9 %, whatever its size, in 256 numbers.
 */
const PER_OCTAVE = 8;
const BUCKETS = 32 * PER_OCTAVE;

/** Counts durations and errors of one method. */
export class Histogram {
  readonly #buckets = new Uint32Array(BUCKETS);
  #count = 0;
  #errors = 0;
  #sumMs = 0;

  record(ms: number, failed: boolean): void {
    const octaves = Math.log2(Math.max(1, ms * 1_000));
    const bucket = Math.min(BUCKETS - 1, Math.floor(octaves * PER_OCTAVE));
    this.#buckets[bucket] = (this.#buckets[bucket] ?? 0) + 1;
    this.#count += 1;
    this.#sumMs += ms;
    if (failed) this.#errors += 1;
  }

  /** The numbers so far. */
  snapshot(): MethodStats {
    return {
      calls: this.#count,
      errors: this.#errors,
      meanMs: this.#count === 0 ? 0 : round(this.#sumMs / this.#count),
      p50Ms: this.#percentile(0.5),
      p99Ms: this.#percentile(0.99),
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

/** What is known about one method's calls. */
export interface MethodStats {
  readonly calls: number;
  readonly errors: number;
  readonly meanMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

function round(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}
