/** Options of semaphores. */
import { InvalidArgumentError } from "@ropeway/core";
import {
  flag,
  integer,
  type OptionTable,
  optional,
  type Rule,
  resolveOptions,
  satisfying,
} from "@ropeway/core/internal";
import { durationOrNull } from "../duration.ts";
import { prefixSpec } from "../keyspace.ts";

/** How a semaphore behaves. Use the same values in every process. */
export interface SemaphoreOptions {
  /** In front of every key; on Cluster it, or the name, needs a hash tag, as in "{shop}". @default "" */
  readonly prefix?: string;
  /** How many hold a permit at a time, until resize() says otherwise. @default 1 */
  readonly limit?: number;
  /**
   * How long Redis keeps a permit if its process stops renewing it; the `timeout` of the documented
   * semaphore, which must be the same in all programs. @default 10000
   */
  readonly ttlMs?: number;
  /** How long acquire() waits; null: without a bound. @default 10000 */
  readonly waitMs?: number | null;
  /** Renew the permit while it is held. @default true */
  readonly renew?: boolean;
  /** Stop renewing after this time, so that a holder that hangs loses the permit. @default undefined */
  readonly maxHoldMs?: number | undefined;
}

/** The options of one acquire(); the rest comes from the semaphore. */
export interface PermitOptions {
  readonly waitMs?: number | null;
  readonly renew?: boolean;
  readonly maxHoldMs?: number | undefined;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
}

/** The largest limit. */
const MOST = 1_000_000;
/** What resize() and the option allow. */
export const limitRule: Rule<number> = integer(1, MOST);

/** Throws InvalidArgumentError for a limit that resize() cannot set. */
export function checkLimit(limit: number | undefined): void {
  if (limit === undefined || limitRule.accepts(limit)) return;
  throw new InvalidArgumentError("limit", limit, limitRule.allowed);
}

const perCall = {
  waitMs: { default: 10_000, rule: durationOrNull(0) },
  renew: { default: true, rule: flag },
  maxHoldMs: { default: undefined, rule: optional(integer(1)) },
};

const table: OptionTable<SemaphoreOptions> = {
  prefix: prefixSpec,
  limit: { default: 1, rule: limitRule },
  ttlMs: { default: 10_000, rule: integer(10, 86_400_000) },
  ...perCall,
};

const permitTable: OptionTable<PermitOptions> = {
  ...perCall,
  signal: {
    default: undefined,
    rule: optional(satisfying("an AbortSignal", (value) => value instanceof AbortSignal)),
  },
};

/** The semaphore's options with nothing left out. */
export function resolveSemaphoreOptions(given?: SemaphoreOptions): Required<SemaphoreOptions> {
  return resolveOptions(table, given);
}

/** The options of one acquire(), those of the semaphore where it says nothing. */
export function resolvePermitOptions(
  { waitMs, renew, maxHoldMs }: Required<SemaphoreOptions>,
  given?: PermitOptions,
): Required<PermitOptions> {
  return resolveOptions(permitTable, given, { waitMs, renew, maxHoldMs });
}
