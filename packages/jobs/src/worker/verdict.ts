/** The verdict for next.lua on a job whose attempt did not complete. */
import { backoffDelay, InvalidOptionError } from "@ropeway/core";
import {
  InvalidDataError,
  JobCancelledError,
  JobStalledError,
  MalformedJobError,
  RateLimitedError,
  UnrecoverableError,
} from "../errors.ts";
import { type BackoffFunction, LONGEST_MS } from "../options.ts";
import type { Attempt } from "./attempt.ts";

const DEFAULT_BACKOFF = ["exponential", 1_000, 3_600_000, 0.2] as const;
const CUSTOM = "custom:";

/** The worker's backoff functions, and the callback for errors that they throw. */
export interface Backoffs {
  readonly functions: Readonly<Record<string, BackoffFunction>>;
  onError(error: unknown): void;
}

/** "dead", "hold <ms>", or the ms until the next attempt. */
export function verdictOf(attempt: Attempt, error: unknown, backoffs: Backoffs): string {
  if (error instanceof RateLimitedError) return `hold ${whole(error.retryAfterMs, 0)}`;
  if (attempt.cancelled || isFinal(error)) return "dead";
  if (attempt.attempt >= attempt.maxAttempts) return "dead";
  const [kind, delayMs, maxMs, jitter] = attempt.record.options.b ?? DEFAULT_BACKOFF;
  const factor = kind === "fixed" ? 1 : 2;
  const planned = backoffDelay(attempt.attempt, { baseMs: delayMs, maxMs, factor, jitter });
  if (!kind.startsWith(CUSTOM)) return whole(planned, delayMs);
  const compute = () => custom(kind.slice(CUSTOM.length), backoffs)(attempt.attempt, error);
  return whole(tried(compute, backoffs), planned);
}

/** Finds a function of the worker by its name. */
function custom(name: string, { functions }: Backoffs): BackoffFunction {
  const compute = Object.hasOwn(functions, name) ? functions[name] : undefined;
  if (compute !== undefined) return compute;
  throw new InvalidOptionError("backoff.name", name, "one of the worker's backoffs");
}

/** What the function returns; NaN if it throws. */
function tried(compute: () => number, { onError }: Backoffs): number {
  try {
    return compute();
  } catch (error) {
    onError(error);
    return Number.NaN;
  }
}

function isFinal(error: unknown): boolean {
  return (
    error instanceof UnrecoverableError ||
    error instanceof JobCancelledError ||
    error instanceof JobStalledError ||
    error instanceof MalformedJobError ||
    error instanceof InvalidDataError
  );
}

/** Whole ms for Lua; a value that is not a duration becomes `otherwise`. */
function whole(ms: number, otherwise: number): string {
  const usable = typeof ms === "number" && ms >= 0 && ms <= LONGEST_MS;
  return String(Math.ceil(usable ? ms : otherwise));
}
