/**
 * The optional protection of calls: circuit breaker, bulkhead, and retries
 * of idempotent calls before the deadline. A call that a worker refused before its handler started is
 * sent again in any case.
 */
import { backoffDelay, RopewayError } from "@ropeway/core";
import { CancelledError } from "../errors.ts";
import type { ClientOptions } from "../options.ts";
import { Recent } from "../recent.ts";
import { Breaker, type BreakerState, type Outcome } from "./breaker.ts";
import { Bulkhead } from "./bulkhead.ts";
import { pause } from "./cancellation.ts";
import { RetryBudget } from "./retry-budget.ts";
import type { Route } from "./route.ts";

/** Errors after which the same call can succeed on another worker or later. */
const RETRYABLE = new Set([
  "DEADLINE_EXCEEDED",
  "UNAVAILABLE",
  "OVERLOADED",
  "SERVER_CLOSING",
  "SESSION_LOST",
  "CONNECTION_LOST",
  "NOT_CONNECTED",
]);
/** Errors that indicate a problem of the service or of the connection to it. */
const UNHEALTHY = new Set([...RETRYABLE, "HANDLER_FAILED", "INTERNAL", "STREAM_BROKEN"]);
/** Errors that show nothing about the health of the service. */
const NEUTRAL = new Set(["CANCELLED", "CLOSED", "ABORTED"]);
const RETRY_BACKOFF = { baseMs: 20, maxMs: 1_000, jitter: 0.4 };
const REFUSED_PAUSE_MS = 100;
const SERVICES_AT_MOST = 1_000;

/** One attempt, which may take `timeoutMs`. */
export type Attempt<T> = (timeoutMs: number) => Promise<T>;

/** The facts about a call that a guard needs. */
export interface GuardedCall {
  readonly timeoutMs: number;
  readonly idempotent: boolean;
  readonly signal: AbortSignal | undefined;
}

/** The protection of one client's calls. */
export class Guard {
  readonly #options: Required<ClientOptions>;
  readonly #breakers = new Recent<string, Breaker>(SERVICES_AT_MOST);
  readonly #bulkheads = new Recent<string, Bulkhead>(SERVICES_AT_MOST);
  readonly #budget = new RetryBudget();
  readonly #onBreaker: (service: string, state: BreakerState) => void;

  constructor(
    options: Required<ClientOptions>,
    onBreaker: (service: string, state: BreakerState) => void,
  ) {
    this.#options = options;
    this.#onBreaker = onBreaker;
    // Invalid options are refused here, before the first call.
    if (options.breaker !== undefined) new Breaker("", options.breaker);
    if (options.bulkhead !== undefined) new Bulkhead("", options.bulkhead);
  }

  /** Whether any protection is configured. */
  get needed(): boolean {
    return this.#options.breaker !== undefined || this.#options.bulkhead !== undefined;
  }

  /** Runs a call under breaker and bulkhead, with retries if it is idempotent. */
  async run<T>(route: Route, call: GuardedCall, attempt: Attempt<T>): Promise<T> {
    const until = performance.now() + call.timeoutMs;
    const leave = await this.enter(route, call);
    try {
      const result = await this.#attempts({ ...call, until }, attempt);
      leave(undefined);
      return result;
    } catch (error) {
      leave(error);
      throw error;
    }
  }

  /** Waits for a place. Returns a function to call at the end, with the error if there was one. */
  async enter(route: Route, call: GuardedCall): Promise<(error: unknown) => void> {
    const { service } = route;
    const { breaker: ofBreaker, bulkhead: ofBulkhead } = this.#options;
    const breaker =
      ofBreaker && this.#breakers.obtain(service, () => new Breaker(service, ofBreaker));
    const bulkhead =
      ofBulkhead && this.#bulkheads.obtain(service, () => new Bulkhead(service, ofBulkhead));
    const permit = breaker?.enter();
    const record = (error: unknown) => {
      if (breaker === undefined || permit === undefined) return;
      const before = breaker.state;
      breaker.leave(permit, outcomeOf(error));
      if (breaker.state !== before) this.#onBreaker(service, breaker.state);
    };
    if (bulkhead === undefined) return record;
    try {
      await bulkhead.enter(call);
    } catch (error) {
      record(new CancelledError("a call that was not sent")); // it shows nothing about the service
      throw error;
    }
    const leave = (error: unknown) => {
      bulkhead.leave();
      record(error);
    };
    try {
      if (permit !== undefined) breaker?.confirm(permit); // it may have waited for long
    } catch (error) {
      leave(error);
      throw error;
    }
    return leave;
  }

  /** Whether a failed attempt may be repeated. */
  mayRetry(error: unknown, idempotent: boolean): boolean {
    return (
      isUnbegun(error) || (idempotent && RETRYABLE.has(codeOf(error)) && this.#budget.failed())
    );
  }

  async #attempts<T>(
    call: GuardedCall & { readonly until: number },
    attempt: Attempt<T>,
  ): Promise<T> {
    const { attempts, attemptTimeoutMs } = this.#options;
    const { until, idempotent, signal } = call;
    for (let number = 1; ; ) {
      const left = Math.max(1, until - performance.now());
      const bounded = idempotent && number < attempts && attemptTimeoutMs !== undefined;
      try {
        const result = await attempt(bounded ? Math.min(attemptTimeoutMs, left) : left);
        this.#budget.succeeded();
        return result;
      } catch (error) {
        const unbegun = isUnbegun(error);
        const delay = unbegun ? REFUSED_PAUSE_MS : backoffDelay(number, RETRY_BACKOFF);
        if (!unbegun) number += 1;
        const tooMany = number > attempts || performance.now() + delay >= until;
        if (tooMany || !this.mayRetry(error, idempotent)) throw error;
        await pause(delay, signal);
      }
    }
  }
}

/** Whether a worker refused the call before its handler started, because it had lost the session. */
function isUnbegun(error: unknown): boolean {
  return codeOf(error) === "SESSION_LOST" && (error as RopewayError).details.begun === false;
}

function outcomeOf(error: unknown): Outcome {
  if (error === undefined) return "succeeded";
  const code = codeOf(error);
  if (NEUTRAL.has(code)) return "unknown";
  return UNHEALTHY.has(code) ? "failed" : "succeeded";
}

function codeOf(error: unknown): string {
  return error instanceof RopewayError ? error.code : "";
}
