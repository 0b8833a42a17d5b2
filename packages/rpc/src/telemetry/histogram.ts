/**
 * Durations, in buckets that grow with the value: 8 per power of two of microseconds. So a
 * percentile of any size is accurate to within 7 %, in 256 numbers.
 *
 * The bucket is read from the bits of the number: its exponent is the power of two, and the first
 * three bits after it are the eighths. A logarithm would cost more than everything else here.
 */
const PER_OCTAVE = 8;
const BUCKETS = 32 * PER_OCTAVE;
/** The bits of the upper half of a float64 after its exponent and the first three bits of its fraction. */
const UNUSED_BITS = 17;
/** The value of those first bits for 1. */
const BITS_OF_ONE = 1023 * PER_OCTAVE;
const bits = new DataView(new ArrayBuffer(8));

/** The time over which the rate is measured. */
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
  /** The index of the current second. */
  #slot = 0;

  /** `at` is now, for callers that already know it. */
  record(ms: number, failed: boolean, at: number = performance.now()): void {
    const bucket = bucketOf(ms);
    this.#buckets[bucket] = (this.#buckets[bucket] as number) + 1;
    this.#count += 1;
    this.#sumMs += ms;
    if (failed) this.#errors += 1;
    this.#turn(at);
    this.#perSecond[this.#slot] = (this.#perSecond[this.#slot] as number) + 1;
  }

  /** Clears the seconds that have passed since the last call. */
  #turn(at: number): void {
    const second = Math.floor(at / 1_000);
    if (second <= this.#second) return;
    const passed = Math.min(second - this.#second, this.#perSecond.length);
    for (let i = 1; i <= passed; i++)
      this.#perSecond[(this.#second + i) % this.#perSecond.length] = 0;
    if (passed === this.#perSecond.length) this.#perSecond.fill(0);
    this.#second = second;
    this.#slot = second % this.#perSecond.length;
  }

  /** Calls per second over the last ten full seconds. */
  #rate(): number {
    this.#turn(performance.now());
    const current = this.#perSecond[this.#slot] ?? 0;
    const total = this.#perSecond.reduce((sum, count) => sum + count, 0);
    return (total - current) / RATE_SECONDS;
  }

  /** The figures so far. */
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
      if (left <= 0 && this.#count > 0) return round(middleOf(i));
    }
    return 0;
  }
}

/** The statistics of one method's calls. */
export interface MethodStats {
  readonly calls: number;
  readonly errors: number;
  readonly meanMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Calls per second over the last ten seconds. */
  readonly perSecond: number;
}

function bucketOf(ms: number): number {
  bits.setFloat64(0, Math.max(1, ms * 1_000));
  return Math.min(BUCKETS - 1, (bits.getUint32(0) >>> UNUSED_BITS) - BITS_OF_ONE);
}

/** The middle of a bucket, in ms. */
function middleOf(bucket: number): number {
  const eighths = bucket % PER_OCTAVE;
  const octave = (bucket - eighths) / PER_OCTAVE;
  return (2 ** octave * (1 + (eighths + 0.5) / PER_OCTAVE)) / 1_000;
}

function round(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}
