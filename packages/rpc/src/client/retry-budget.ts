/**
 * Keeps retries from multiplying an outage: each failure costs a token, each success earns a tenth of
 * one, and below half of them nothing is retried (gRPC's rule).
 */
const TOKENS = 10;
const EARNED = 0.1;

/** One per client. */
export class RetryBudget {
  #tokens = TOKENS;

  /** Whether a failed call may be tried again. */
  failed(): boolean {
    this.#tokens = Math.max(0, this.#tokens - 1);
    return this.#tokens > TOKENS / 2;
  }

  succeeded(): void {
    this.#tokens = Math.min(TOKENS, this.#tokens + EARNED);
  }
}
