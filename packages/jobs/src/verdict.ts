/** What becomes of a job whose attempt failed: the word next.lua understands. */
import { backoffDelay } from "@ropeway/core";
import type { Attempt } from "./attempt.ts";
import {
  JobCancelledError,
  JobStalledError,
  MalformedJobError,
  RateLimitedError,
  UnrecoverableError,
} from "./errors.ts";
import type { BackoffFunction } from "./options.ts";

const DEFAULT_BACKOFF = ["exponential", 1_000, 3_600_000, 0.2] as const;

/** "dead", "hold <ms>", or the ms until the next attempt. */
export function verdictOf(
  attempt: Attempt,
  error: unknown,
  backoffs: Readonly<Record<string, BackoffFunction>>,
): string {
  if (error instanceof RateLimitedError) return `hold ${Math.ceil(error.retryAfterMs)}`;
  if (attempt.cancelled || isFinal(error)) return "dead";
  if (attempt.attempt >= attempt.maxAttempts) return "dead";
  const [kind, delayMs, maxMs, jitter] = attempt.record.options.b ?? DEFAULT_BACKOFF;
  const custom = Object.hasOwn(backoffs, kind) ? backoffs[kind] : undefined;
  if (custom !== undefined) return whole(custom(attempt.attempt, error), delayMs);
  const factor = kind === "fixed" ? 1 : 2;
  const delay = backoffDelay(attempt.attempt, { baseMs: delayMs, maxMs, factor, jitter });
  return whole(delay, delayMs);
}

function isFinal(error: unknown): boolean {
  return (
    error instanceof UnrecoverableError ||
    error instanceof JobCancelledError ||
    error instanceof JobStalledError ||
    error instanceof MalformedJobError
  );
}

/** A custom backoff may return anything; what is no delay falls back to the plan's own. */
function whole(ms: number, otherwise: number): string {
  return String(Math.ceil(Number.isFinite(ms) && ms >= 0 ? ms : otherwise));
}
