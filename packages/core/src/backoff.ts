/**
 * How long to wait before trying again: exponential, with jitter, so that a fleet that lost its server
 * at one instant does not come back to it at one instant.
 */

/** The curve of a backoff. */
export interface BackoffOptions {
  /** The first delay. */
  readonly baseMs: number;
  /** No delay is longer. */
  readonly maxMs: number;
  /** Each delay is this many times the one before. @default 2 */
  readonly factor?: number;
  /** The part of the delay that is random: 0 none, 1 all of it. @default 0.5 */
  readonly jitter?: number;
}

/** The delay before retry number `attempt` (the first is 1). */
export function backoffDelay(
  attempt: number,
  options: BackoffOptions,
  random: () => number = Math.random,
): number {
  const { baseMs, maxMs, factor = 2, jitter = 0.5 } = options;
  const full = Math.min(maxMs, baseMs * factor ** Math.max(0, attempt - 1));
  return full * (1 - jitter * random());
}

/** Counts the failures in a row: `next()` after each one, `reset()` after a success. */
export class Backoff {
  readonly #options: BackoffOptions;
  #attempt = 0;

  constructor(options: BackoffOptions) {
    this.#options = options;
  }

  get attempt(): number {
    return this.#attempt;
  }

  next(): number {
    this.#attempt += 1;
    return backoffDelay(this.#attempt, this.#options);
  }

  reset(): void {
    this.#attempt = 0;
  }
}
