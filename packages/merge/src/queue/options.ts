/** The options of a MergeQueue: defaults, meanings, rules. */
import { integer, milliseconds, type OptionTable, oneOf, text } from "@ropeway/core/internal";

/** The options of a MergeQueue. */
export interface MergeQueueOptions {
  /** The prefix of all keys; on Cluster it must have a hash tag. @default "ropeway:{merge}" */
  readonly prefix?: string;
  /** The longest time that pushes with `update: "always"` can postpone a batch. @default 604800000, 7 days */
  readonly maxWaitMs?: number;
  /** A key with this many items fires at once, and no batch has more. @default 500 */
  readonly maxItems?: number;
  /** A key with this many bytes fires at once, and no batch of two or more items has more. @default 1048576 */
  readonly maxBytes?: number;
  /** How long a push remembers its idempotency key. @default 86400000, a day */
  readonly idempotencyMs?: number;
  /** How long a key that schedule() handed out may stay unfetched before it is handed out again. @default 5000 */
  readonly startTimeoutMs?: number;
  /** After this many starts that no worker fetched, the key becomes a dead letter. @default 5 */
  readonly maxStarts?: number;
  /**
   * What happens to a key that no worker fetches: "drop" deletes it at the first timeout. @default "retry"
   */
  readonly onStartTimeout?: "retry" | "drop";
}

/** The options with their defaults filled in. */
export type ResolvedQueueOptions = Required<MergeQueueOptions>;

export const queueOptions: OptionTable<MergeQueueOptions> = {
  prefix: { default: "ropeway:{merge}", rule: text },
  maxWaitMs: { default: 604_800_000, rule: milliseconds() },
  maxItems: { default: 500, rule: integer(1, 5_000) },
  maxBytes: { default: 1_048_576, rule: integer(1, 16_777_216) },
  idempotencyMs: { default: 86_400_000, rule: integer(1, 31_536_000_000) },
  startTimeoutMs: { default: 5_000, rule: integer(1, 86_400_000) },
  maxStarts: { default: 5, rule: integer(1) },
  onStartTimeout: { default: "retry", rule: oneOf("retry", "drop") },
};
