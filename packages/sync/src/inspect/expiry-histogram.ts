/** Counts when keys expire, relative to the time of the snapshot. */

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

const BUCKETS: readonly (readonly [name: string, below: number])[] = [
  ["expired", 0],
  ["within 1 hour", HOUR],
  ["within 1 day", DAY],
  ["within 1 week", 7 * DAY],
  ["within 30 days", 30 * DAY],
  ["within 1 year", 365 * DAY],
  ["later", Number.POSITIVE_INFINITY],
];

/** Keys that expire in one span of time. */
export interface ExpiryBucket {
  readonly within: string;
  readonly keys: number;
}

export class ExpiryHistogram {
  readonly #counts: number[] = BUCKETS.map(() => 0);
  #never = 0;

  /** A negative `expiresAtMs` means that the key never expires. */
  add(expiresAtMs: number, nowMs: number): void {
    if (expiresAtMs < 0) {
      this.#never++;
      return;
    }
    const left = expiresAtMs - nowMs;
    let at = 0;
    while (left > (BUCKETS[at] as readonly [string, number])[1]) at++;
    this.#counts[at] = (this.#counts[at] as number) + 1;
  }

  get buckets(): ExpiryBucket[] {
    const expiring = BUCKETS.map(([within], i) => ({ within, keys: this.#counts[i] as number }));
    return [{ within: "never", keys: this.#never }, ...expiring];
  }
}
