/**
 * Refuses calls to a service that keeps failing, so that its callers fail fast and it can recover.
 *
 *   closed --failure rate over the window--> open --halfOpenAfterMs--> half-open: one call as a probe
 *      ^                                       ^                           |            |
 *      +---------------------------------------|------- succeeded ---------+            |
 *                                              +------- failed -------------------------+
 */
import { resolveOptions } from "@ropeway/core/internal";
import { OverloadedError } from "../errors.ts";
import { type BreakerOptions, breakerTable } from "../options.ts";

/** See the top of the file; one per service. */
export class Breaker {
  readonly #service: string;
  readonly #options: Required<BreakerOptions>;
  #state: "closed" | "open" | "half-open" = "closed";
  #calls = 0;
  #failures = 0;
  #since = performance.now();

  constructor(service: string, options: BreakerOptions) {
    this.#service = service;
    this.#options = resolveOptions(breakerTable, options);
  }

  get state(): "closed" | "open" | "half-open" {
    return this.#state;
  }

  /** Throws if calls are refused now. */
  enter(): void {
    const now = performance.now();
    const age = now - this.#since;
    if (this.#state === "open" && age >= this.#options.halfOpenAfterMs) {
      this.#state = "half-open";
      return; // this call is the probe
    }
    if (this.#state !== "closed") {
      throw new OverloadedError(this.#service, "its circuit breaker is open");
    }
    if (age > this.#options.windowMs) this.#reset("closed");
  }

  /** Notes how a call ended. */
  leave(failed: boolean): void {
    if (this.#state === "half-open") {
      this.#reset(failed ? "open" : "closed");
      return;
    }
    this.#calls += 1;
    if (failed) this.#failures += 1;
    const { minCalls, failureRate } = this.#options;
    if (this.#calls >= minCalls && this.#failures / this.#calls >= failureRate) this.#reset("open");
  }

  #reset(state: "closed" | "open"): void {
    this.#state = state;
    this.#calls = 0;
    this.#failures = 0;
    this.#since = performance.now();
  }
}
