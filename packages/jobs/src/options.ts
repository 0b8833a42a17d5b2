/** All options of queues, jobs and workers: their meaning, defaults and limits. */
import type { Logger } from "@ropeway/core";
import {
  between,
  flag,
  integer,
  type OptionTable,
  optional,
  resolveOptions,
  satisfying,
  text,
} from "@ropeway/core/internal";
import { DEFAULT_PREFIX } from "./keys.ts";

/** How many ended jobs of one kind stay: `true` all, `false` or 0 none, a count, or count and age. */
export type Retention = boolean | number | { readonly count?: number; readonly ageMs?: number };

/** How long to wait between attempts. */
export interface BackoffPlan {
  /** "fixed", "exponential", or the name of one of the worker's `backoffs`. @default "exponential" */
  readonly kind?: string;
  /** The first delay. @default 1000 */
  readonly delayMs?: number;
  /** No delay is longer. @default 3600000 */
  readonly maxMs?: number;
  /** The part of the delay that is random, 0 to 1. @default 0.2 */
  readonly jitter?: number;
}

/** What to do when the same thing is added again. */
export interface DedupePlan {
  /** What is the same. */
  readonly key: string;
  /** How long the key holds, whatever becomes of the job. @default until the job has ended */
  readonly ttlMs?: number;
  /** Keep the job that is there, or replace its data and delay (debounce). @default "keep" */
  readonly mode?: "keep" | "replace";
  /** With "replace": the job runs at the latest so long after it was first added. */
  readonly maxWaitMs?: number;
}

/** How one job is to be treated. */
export interface JobOptions {
  /** A name of your own; a second job with the same id is not added. @default made for you */
  readonly id?: string;
  /** Run it so much later. */
  readonly delayMs?: number;
  /** Run it at this time of the Redis clock. */
  readonly runAt?: Date | number;
  /** Lower runs first, from -1048575 to 1048575. @default 0 */
  readonly priority?: number;
  /** Run it before those that wait (jobs without priority and group). @default false */
  readonly lifo?: boolean;
  /** How often it is tried. @default 1 */
  readonly attempts?: number;
  /** The wait between attempts; a number is a fixed delay. @default exponential from 1 s to 1 h */
  readonly backoff?: number | BackoffPlan;
  /** How long one attempt may take. @default no limit */
  readonly timeoutMs?: number;
  /** A tenant: groups take turns. */
  readonly group?: string;
  /** The same thing is not added twice; a text is a key. */
  readonly dedupe?: string | DedupePlan;
  /** How long it stays when it has ended. @default completed: none, failed: 10000 for 90 days */
  readonly keep?: { readonly completed?: Retention; readonly failed?: Retention };
  /** Its outcome is kept for a minute for result(), even if it ends before that is called. @default false */
  readonly awaited?: boolean;
}

/** How a queue behaves in this process. */
export interface QueueOptions {
  /** What its keys begin with. @default "ropeway:jobs" */
  readonly prefix?: string;
  /** Options for every job that does not say otherwise. @default {} */
  readonly defaults?: JobOptions;
}

/** A rate: at most `max` jobs in `perMs`. */
export interface Rate {
  readonly max: number;
  readonly perMs: number;
}

/** Limits of a queue, kept in Redis and obeyed by all workers; null takes one away. */
export interface QueueLimits {
  /** Jobs running at the same time, over all workers. */
  readonly concurrency?: number | null;
  readonly rate?: Rate | null;
  /** The same for each group. */
  readonly groupConcurrency?: number | null;
  readonly groupRate?: Rate | null;
}

/** Computes the wait before the next attempt of a job. */
export type BackoffFunction = (attempt: number, error: unknown) => number;

/** How a worker behaves. */
export interface WorkerOptions {
  /** What the queue's keys begin with. @default "ropeway:jobs" */
  readonly prefix?: string;
  /** Jobs running at the same time. @default 1 */
  readonly concurrency?: number;
  /** Hand the handler up to so many jobs at once; 0 is one at a time. @default 0 */
  readonly batch?: number;
  /** How long a job belongs to this worker without a sign of life. @default 30000 */
  readonly leaseMs?: number;
  /** How often a job may lose its worker before it counts as poison and fails. @default 3 */
  readonly maxStalls?: number;
  /** The most jobs to fetch ahead; the number in use follows the handler's speed. @default 200 */
  readonly prefetch?: number;
  /** How long close() waits for running handlers. @default 30000 */
  readonly closeWithinMs?: number;
  /** Backoffs that jobs can name. @default {} */
  readonly backoffs?: Readonly<Record<string, BackoffFunction>>;
  /** Longest wait for a wake-up before looking anyway. @default 5000 */
  readonly idleMs?: number;
  /** Lines of a job's log that are kept. @default 100 */
  readonly logLines?: number;
  /** Shown in lists of workers. @default host name and process id */
  readonly name?: string;
  /** @default the connection's */
  readonly logger?: Logger | undefined;
  /** Start at once; false waits for start(). @default true */
  readonly autostart?: boolean;
}

const anObject = (value: unknown) => typeof value === "object" && value !== null;

const queueTable: OptionTable<QueueOptions> = {
  prefix: { default: DEFAULT_PREFIX, rule: text },
  defaults: { default: {}, rule: satisfying<JobOptions>("job options", anObject) },
};

const workerTable: OptionTable<WorkerOptions> = {
  prefix: { default: DEFAULT_PREFIX, rule: text },
  concurrency: { default: 1, rule: integer(1, 10_000) },
  batch: { default: 0, rule: integer(0, 1_000) },
  leaseMs: { default: 30_000, rule: integer(50, 2_147_483_647) },
  maxStalls: { default: 3, rule: integer(0) },
  prefetch: { default: 200, rule: integer(0, 1_000) },
  closeWithinMs: { default: 30_000, rule: between(0, 2_147_483_647) },
  backoffs: { default: {}, rule: satisfying("functions by name", anObject) },
  idleMs: { default: 5_000, rule: integer(10, 600_000) },
  logLines: { default: 100, rule: integer(1) },
  name: { default: "", rule: satisfying("a text", (value) => typeof value === "string") },
  logger: { default: undefined, rule: optional(satisfying<Logger>("a logger", anObject)) },
  autostart: { default: true, rule: flag },
};

/** A queue's options with nothing left out. */
export function resolveQueueOptions(given: QueueOptions | undefined): Required<QueueOptions> {
  return resolveOptions(queueTable, given);
}

/** A worker's options with nothing left out. */
export function resolveWorkerOptions(given: WorkerOptions | undefined): Required<WorkerOptions> {
  return resolveOptions(workerTable, given);
}
