/**
 * What stands between a caller and the wire when it is asked for: circuit breaker, bulkhead, and
 * retries of idempotent calls inside the deadline.
 */
import { backoffDelay, RopewayError } from "@ropeway/core";
import { sleep } from "@ropeway/core/internal";
import type { CallOptions, ClientOptions } from "../options.ts";
import { Breaker } from "./breaker.ts";
import { Bulkhead } from "./bulkhead.ts";
import { RetryBudget } from "./retry-budget.ts";
import type { Route } from "./route.ts";

/** Errors after which the same call may well succeed, elsewhere or a little later. */
const RETRYABLE = new Set([
  "DEADLINE_EXCEEDED",
  "UNAVAILABLE",
  "SERVER_CLOSING",
  "SESSION_LOST",
  "CONNECTION_LOST",
  "NOT_CONNECTED",
]);
/** Errors that say nothing about the health of the service. */
const CALLERS_FAULT = new Set([
  "INVALID_PARAMS",
  "METHOD_NOT_FOUND",
  "INVALID_REQUEST",
  "CANCELLED",
]);
const RETRY_BACKOFF = { baseMs: 20, maxMs: 1_000, jitter: 0.4 };

/** One sending, which may take so long. */
export type Attempt = (timeoutMs: number) => Promise<unknown>;

/** See the top of the file; one per client. */
export class Guard {
  readonly #options: Required<ClientOptions>;
  readonly #breakers = new Map<string, Breaker>();
  readonly #bulkheads = new Map<string, Bulkhead>();
  readonly #budget = new RetryBudget();

  constructor(options: Required<ClientOptions>) {
    this.#options = options;
  }

  /** Whether calls have to come through here at all. */
  get needed(): boolean {
    return this.#options.breaker !== undefined || this.#options.bulkhead !== undefined;
  }

  async run(route: Route, options: CallOptions, attempt: Attempt): Promise<unknown> {
    const { service } = route;
    const breaker = this.#of(this.#breakers, service, () => {
      const given = this.#options.breaker;
      return given === undefined ? undefined : new Breaker(service, given);
    });
    const bulkhead = this.#of(this.#bulkheads, service, () => {
      const given = this.#options.bulkhead;
      return given === undefined ? undefined : new Bulkhead(service, given);
    });
    breaker?.enter();
    await bulkhead?.enter(options.signal);
    try {
      const result = await this.#attempts(options, attempt);
      breaker?.leave(false);
      return result;
    } catch (error) {
      breaker?.leave(!CALLERS_FAULT.has(codeOf(error)));
      throw error;
    } finally {
      bulkhead?.leave();
    }
  }

  async #attempts(options: CallOptions, attempt: Attempt): Promise<unknown> {
    const { attempts, attemptTimeoutMs } = this.#options;
    const timeoutMs = options.timeoutMs ?? this.#options.timeoutMs;
    if (options.idempotent !== true || attempts === 1) return attempt(timeoutMs);
    const until = performance.now() + timeoutMs;
    for (let number = 1; ; number++) {
      const left = until - performance.now();
      const share = attemptTimeoutMs ?? Math.max(left / (attempts - number + 1), 1);
      try {
        const result = await attempt(number === attempts ? left : Math.min(share, left));
        this.#budget.succeeded();
        return result;
      } catch (error) {
        const mayRetry = RETRYABLE.has(codeOf(error)) && this.#budget.failed();
        const pause = backoffDelay(number, RETRY_BACKOFF);
        if (!mayRetry || number >= attempts || performance.now() + pause >= until) throw error;
        await sleep(pause, options.signal);
      }
    }
  }

  #of<T>(all: Map<string, T>, service: string, make: () => T | undefined): T | undefined {
    let found = all.get(service);
    if (found === undefined) {
      found = make();
      if (found !== undefined) all.set(service, found);
    }
    return found;
  }
}

function codeOf(error: unknown): string {
  return error instanceof RopewayError ? error.code : "";
}
