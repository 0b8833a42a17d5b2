/** The options of a Dispatcher: defaults, meanings, rules. */
import type { BackoffOptions } from "@ropeway/core";
import { integer, milliseconds, type OptionTable, satisfying } from "@ropeway/core/internal";

/** How a Dispatcher works. */
export interface DispatcherOptions {
  /** Batches in the handler's hands at a time. @default 128 */
  readonly concurrency?: number;
  /** So many of them for one origin: a receiver that hangs leaves the rest to the others. @default 32 */
  readonly perOrigin?: number;
  /** How long a batch is ours; after a crash it comes again this late. @default 30000 */
  readonly leaseMs?: number;
  /** How long a due key is kept for us between finding and locking it. @default 2000 */
  readonly reserveMs?: number;
  /** After so many attempts the batch is a dead letter. @default 12, with the default retry about a day */
  readonly maxAttempts?: number;
  /** The pause before each further attempt. @default 5 s, times 3 up to 6 h, a fifth of it random */
  readonly retry?: BackoffOptions;
  /** Spread of what comes back after a hold, so that it does not come back at one instant. @default 250 */
  readonly holdJitterMs?: number;
  /** How long close() lets running batches end before it interrupts them. @default 10000 */
  readonly closeWithinMs?: number;
}

export const dispatcherOptions: OptionTable<DispatcherOptions> = {
  concurrency: { default: 128, rule: integer(1, 10_000) },
  perOrigin: { default: 32, rule: integer(1, 10_000) },
  leaseMs: { default: 30_000, rule: integer(100) },
  reserveMs: { default: 2_000, rule: integer(10) },
  maxAttempts: { default: 12, rule: integer(1) },
  retry: {
    default: { baseMs: 5_000, maxMs: 21_600_000, factor: 3, jitter: 0.2 },
    rule: satisfying("an object with baseMs and maxMs, both at least 1", isBackoff),
  },
  holdJitterMs: { default: 250, rule: milliseconds() },
  closeWithinMs: { default: 10_000, rule: milliseconds() },
};

function isBackoff(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { baseMs, maxMs } = value as Partial<BackoffOptions>;
  return Number(baseMs) >= 1 && Number(maxMs) >= 1;
}
