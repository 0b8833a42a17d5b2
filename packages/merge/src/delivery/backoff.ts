/** The wait between two attempts. */
import { backoffDelay } from "@ropeway/core";
import { type Rule, satisfying } from "@ropeway/core/internal";

/** How long to wait between attempts. */
export interface RetryBackoff {
  /** @default "exponential" */
  readonly kind?: "fixed" | "exponential";
  /** The first delay. */
  readonly delayMs: number;
  /** The maximum delay. @default 21600000, 6 hours */
  readonly maxMs?: number;
  /** Each delay is this many times the previous one. @default 3 */
  readonly factor?: number;
  /** The part of the delay that is random, 0 to 1. @default 0.2 */
  readonly jitter?: number;
}

/** The delay after attempt number `attempt` (the first is 1). */
export function retryDelayMs(attempt: number, backoff: RetryBackoff): number {
  const { kind = "exponential", delayMs, maxMs = 21_600_000, factor = 3, jitter = 0.2 } = backoff;
  const growth = kind === "fixed" ? 1 : factor;
  return backoffDelay(attempt, { baseMs: delayMs, maxMs, factor: growth, jitter });
}

export const backoffRule: Rule<RetryBackoff> = satisfying(
  "an object with kind (fixed or exponential), delayMs, maxMs, factor of at least 1, jitter from 0 to 1",
  (value) => {
    if (typeof value !== "object" || value === null) return false;
    const { kind, delayMs, maxMs, factor, jitter, ...others } = value as RetryBackoff;
    return (
      Object.keys(others).length === 0 &&
      (kind === undefined || kind === "fixed" || kind === "exponential") &&
      within(delayMs, 1, 31_536_000_000) &&
      (maxMs === undefined || within(maxMs, 1, 31_536_000_000)) &&
      (factor === undefined || within(factor, 1, 1_000)) &&
      (jitter === undefined || within(jitter, 0, 1))
    );
  },
);

function within(value: unknown, min: number, max: number): boolean {
  return typeof value === "number" && value >= min && value <= max;
}
