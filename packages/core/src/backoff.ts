/**
 * How long to wait before a retry: exponential, with jitter, so that many clients that lost their server
 * at the same moment do not all reconnect at the same moment.
 */

/** The curve of a backoff. */
export interface BackoffOptions {
  /** The first delay. */
  readonly baseMs: number;
  /** The maximum delay. */
  readonly maxMs: number;
  /** Each delay is the previous one times this factor. @default 2 */
  readonly factor?: number;
  /** The random part of the delay, from 0 (none) to 1 (all of it). @default 0.5 */
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

/** Counts consecutive failures: call `next()` after each one, `reset()` after a success. */
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
