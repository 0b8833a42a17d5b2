/** Options of locks. */
import { InvalidArgumentError, InvalidOptionError } from "@ropeway/core";
import {
  flag,
  integer,
  type OptionTable,
  optional,
  type Rule,
  resolveOptions,
  satisfying,
  text,
} from "@ropeway/core/internal";
import { durationOrNull } from "../duration.ts";
import { isWellFormed, prefixSpec } from "../keyspace.ts";
import { thisProcess } from "../owner.ts";
import type { LockMode } from "./store.ts";

/** How a lock behaves. */
export interface LockOptions {
  /** In front of every key; give it a hash tag on Cluster, as in "{shop}". @default "" */
  readonly prefix?: string;
  /**
   * How long Redis keeps the lock if this process stops renewing it. null: until it is released, as the
   * documented lock without a timeout; a crash then locks for ever. @default 30000
   */
  readonly ttlMs?: number | null;
  /** How long acquire() waits; null: without a bound. @default 10000 */
  readonly waitMs?: number | null;
  /** Renew the lock while it is held. @default true */
  readonly renew?: boolean;
  /** Stop renewing after this time, so that a holder that hangs loses the lock. @default undefined */
  readonly maxHoldMs?: number | undefined;
  /**
   * Hand the lock to the process that waits longest. false: a release frees the lock, and the first
   * process that asks gets it. That is faster and can starve a waiter. @default true
   */
  readonly fair?: boolean;
  /** Who holds the lock, for operators; part of the token. @default "host:pid" */
  readonly owner?: string;
}

/** The options of one acquire(); the rest comes from the lock. */
export interface AcquireOptions {
  readonly ttlMs?: number | null;
  readonly waitMs?: number | null;
  readonly renew?: boolean;
  readonly maxHoldMs?: number | undefined;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Enters the lock once more with the token of its holder, in this process or another one. The lock is
   * free when every entry was released.
   */
  readonly token?: string | undefined;
}

const MIN_TTL_MS = 10;

const label: Rule<string> = satisfying(
  "a string of 1 to 200 characters without spaces",
  (value) => {
    return typeof value === "string" && /^[^\s]{1,200}$/.test(value) && isWellFormed(value);
  },
);

const ttlRule = durationOrNull(MIN_TTL_MS);

const perCall = {
  ttlMs: { default: 30_000, rule: ttlRule },
  waitMs: { default: 10_000, rule: durationOrNull(0) },
  renew: { default: true, rule: flag },
  maxHoldMs: { default: undefined, rule: optional(integer(1)) },
};

const table: OptionTable<LockOptions> = {
  prefix: prefixSpec,
  ...perCall,
  fair: { default: true, rule: flag },
  owner: { default: "", rule: label },
};

const acquireTable: OptionTable<AcquireOptions> = {
  ...perCall,
  signal: {
    default: undefined,
    rule: optional(satisfying("an AbortSignal", (value) => value instanceof AbortSignal)),
  },
  token: { default: undefined, rule: optional(text) },
};

/** The lock's options with nothing left out. */
export function resolveLockOptions(given?: LockOptions): Required<LockOptions> {
  const options = resolveOptions(table, given);
  return { ...options, owner: options.owner || thisProcess() };
}

/** Refuses a reader without an end: the readers of a lock are kept by the times when they end. */
export function checkReader(mode: LockMode, ttlMs: number | null): void {
  if (mode === "read" && ttlMs === null) {
    throw new InvalidOptionError("ttlMs", null, "a number: readers always have an end");
  }
}

/** Refuses a time that extend() cannot give. */
export function checkExtension(mode: LockMode, ttlMs: unknown): void {
  if (mode === "read" && ttlMs === null) {
    throw new InvalidArgumentError("ttlMs", null, "a number: readers always have an end");
  }
  if (!ttlRule.accepts(ttlMs)) throw new InvalidArgumentError("ttlMs", ttlMs, ttlRule.allowed);
}

/** The options of one acquire(), those of the lock where it says nothing. */
export function resolveAcquireOptions(
  lock: Required<LockOptions>,
  given?: AcquireOptions,
): Required<AcquireOptions> {
  const { ttlMs, waitMs, renew, maxHoldMs } = lock;
  return resolveOptions(acquireTable, given, { ttlMs, waitMs, renew, maxHoldMs });
}
