/** The options of a Dispatcher: defaults, meanings, rules. */
import {
  integer,
  milliseconds,
  type OptionTable,
  optional,
  satisfying,
} from "@ropeway/core/internal";
import type { Batch } from "../queue/queue.ts";
import { backoffRule, type RetryBackoff } from "./backoff.ts";

/** Called with a batch before it becomes a dead letter. */
export type BeforeDead = (batch: Batch, reason: string) => Promise<void>;

/** The options of a Dispatcher. */
export interface DispatcherOptions {
  /** The maximum number of batches in the handler at a time. @default 128 */
  readonly concurrency?: number;
  /**
   * How many of them may go to one origin, so that an origin that hangs cannot take all slots. @default 32
   */
  readonly perOrigin?: number;
  /** How long the dispatcher holds a batch. After a crash, the batch is delivered again after this time. @default 30000 */
  readonly leaseMs?: number;
  /** How long the dispatcher reserves a due key before it locks it. @default 2000 */
  readonly reserveMs?: number;
  /**
   * The number of attempts before the batch becomes a dead letter. @default 12, with the default backoff about a
   * day
   */
  readonly attempts?: number;
  /** The wait between attempts. @default 5 s, times 3 up to 6 h, a fifth of it random */
  readonly backoff?: RetryBackoff;
  /** Random delay of batches that come back after a hold, so that not all come at one instant. @default 250 */
  readonly holdJitterMs?: number;
  /** Dead letters are deleted after this time. @default 7776000000, 90 days */
  readonly letterAgeMs?: number;
  /** The oldest dead letters beyond this number are deleted. @default 100000 */
  readonly maxLetters?: number;
  /**
   * Called before a batch becomes a dead letter. An error that it throws is reported and changes nothing. The
   * batch waits for it only as long as its lease lasts. It may be called again after a lost connection. @default none
   */
  readonly beforeDead?: BeforeDead | undefined;
  /** How long close() lets running batches end before it interrupts them. @default 10000 */
  readonly closeWithinMs?: number;
}

export const dispatcherOptions: OptionTable<DispatcherOptions> = {
  concurrency: { default: 128, rule: integer(1, 10_000) },
  perOrigin: { default: 32, rule: integer(1, 10_000) },
  leaseMs: { default: 30_000, rule: integer(100, 86_400_000) },
  reserveMs: { default: 2_000, rule: integer(10, 86_400_000) },
  attempts: { default: 12, rule: integer(1, 1_000) },
  backoff: {
    default: { kind: "exponential", delayMs: 5_000, maxMs: 21_600_000, factor: 3, jitter: 0.2 },
    rule: backoffRule,
  },
  holdJitterMs: { default: 250, rule: milliseconds() },
  letterAgeMs: { default: 7_776_000_000, rule: milliseconds() },
  maxLetters: { default: 100_000, rule: integer(0) },
  beforeDead: {
    default: undefined,
    rule: optional(satisfying("a function", (value) => typeof value === "function")),
  },
  closeWithinMs: { default: 10_000, rule: milliseconds() },
};
