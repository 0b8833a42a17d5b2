/**
 * Refuses calls to a service that keeps failing, so that its callers fail fast and it can recover.
 *
 *   closed --failure rate over the window--> open --halfOpenAfterMs--> half-open: one call as a probe
 *      ^                                       ^                           |            |
 *      +---------------------------------------|------- succeeded ---------+            |
 *                                              +------- failed -------------------------+
 *
 * A probe without a result for the service (the caller cancelled it) leaves the breaker half-open for
 * the next one; so does a probe that has not ended after `halfOpenAfterMs`.
 */
import { OverloadedError } from "@ropeway/core";
import { resolveOptions, show } from "@ropeway/core/internal";
import { type BreakerOptions, breakerTable } from "../options.ts";

/** What the end of a call shows about its service. */
export type Outcome = "succeeded" | "failed" | "unknown";

/** The state of a circuit breaker. */
export type BreakerState = "closed" | "open" | "half-open";

/** A call that was admitted. */
export interface Permit {
  /** The period of the breaker that it belongs to. Calls of earlier periods do not count. */
  readonly period: number;
  readonly probe: boolean;
}

/** A circuit breaker; one per service. */
export class Breaker {
  readonly #service: string;
  readonly #options: Required<BreakerOptions>;
  #state: BreakerState = "closed";
  #period = 0;
  #calls = 0;
  #failures = 0;
  #since = performance.now();
  #probeSince = Number.NEGATIVE_INFINITY;

  constructor(service: string, options: BreakerOptions) {
    this.#service = service;
    this.#options = resolveOptions(breakerTable, options);
  }

  get state(): BreakerState {
    return this.#state;
  }

  /** Admits a call. Throws OverloadedError if calls are refused now. */
  enter(): Permit {
    const now = performance.now();
    const { halfOpenAfterMs, windowMs } = this.#options;
    if (this.#state === "open" && now - this.#since >= halfOpenAfterMs) this.#state = "half-open";
    if (this.#state === "half-open" && now - this.#probeSince >= halfOpenAfterMs) {
      this.#probeSince = now;
      return { period: this.#period, probe: true };
    }
    if (this.#state !== "closed") throw this.#refusal();
    if (now - this.#since > windowMs) this.#begin("closed");
    return { period: this.#period, probe: false };
  }

  /** Throws OverloadedError if the breaker has opened since the call was admitted. */
  confirm({ period }: Permit): void {
    if (period !== this.#period && this.#state !== "closed") throw this.#refusal();
  }

  /** Records how a call ended. */
  leave(permit: Permit, outcome: Outcome): void {
    if (permit.period !== this.#period) return;
    if (permit.probe) {
      this.#probeSince = Number.NEGATIVE_INFINITY;
      if (outcome !== "unknown") this.#begin(outcome === "failed" ? "open" : "closed");
      return;
    }
    if (this.#state !== "closed" || outcome === "unknown") return;
    this.#calls += 1;
    if (outcome === "failed") this.#failures += 1;
    const { minCalls, failureRate } = this.#options;
    if (this.#calls >= minCalls && this.#failures / this.#calls >= failureRate) this.#begin("open");
  }

  #refusal(): OverloadedError {
    return new OverloadedError(`service ${show(this.#service)}`, "its circuit breaker is open");
  }

  #begin(state: "closed" | "open"): void {
    this.#state = state;
    this.#period += 1;
    this.#calls = 0;
    this.#failures = 0;
    this.#since = performance.now();
    this.#probeSince = Number.NEGATIVE_INFINITY;
  }
}
