/**
 * Prevents retries from multiplying an outage: each failure costs a token, each success earns a tenth of
 * a token, and below half of the tokens nothing is retried (gRPC's rule).
 */
const TOKENS = 10;
const EARNED = 0.1;

/** The retry budget of one client. */
export class RetryBudget {
  #tokens = TOKENS;

  /** Records a failure. Returns whether the call may be retried. */
  failed(): boolean {
    this.#tokens = Math.max(0, this.#tokens - 1);
    return this.#tokens > TOKENS / 2;
  }

  succeeded(): void {
    this.#tokens = Math.min(TOKENS, this.#tokens + EARNED);
  }
}
