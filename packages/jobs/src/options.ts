/** All options of queues, jobs and workers: their meaning, defaults and limits. */
import type { Logger } from "@ropeway/core";
import {
  between,
  flag,
  integer,
  type OptionTable,
  oneOf,
  optional,
  resolveOptions,
  satisfying,
  text,
} from "@ropeway/core/internal";
import { JobDefinitions } from "./definition.ts";
import { DEFAULT_PREFIX } from "./keys.ts";
import type { JobContext } from "./worker/attempt.ts";

/** The maximum duration, about 31 years. Sums with a time stay exact in Lua. */
export const LONGEST_MS = 1e12;

/** How many ended jobs stay: `true` all, `false` or 0 none, a count, or a count and an age. */
export type Retention = boolean | number | { readonly count?: number; readonly ageMs?: number };

/** How long to wait between attempts. */
export interface BackoffPlan {
  /** "custom" calls the function `name` of the worker's `backoffs`. @default "exponential" */
  readonly kind?: "fixed" | "exponential" | "custom";
  /** With "custom": the name of one of the worker's `backoffs`. */
  readonly name?: string;
  /** The delay before the second attempt. @default 1000 */
  readonly delayMs?: number;
  /** The longest delay. @default 3600000, or `delayMs` if that is longer */
  readonly maxMs?: number;
  /** The random part of the delay, 0 to 1. @default 0.2, and 0 for "fixed" */
  readonly jitter?: number;
}

/** What to do when a job with the same key is added again. */
export interface DedupePlan {
  /** Jobs with the same key are duplicates. */
  readonly key: string;
  /** How long the key holds, even if the job ends earlier. @default until the job has ended */
  readonly ttlMs?: number;
  /** Keep the job that is there, or replace its data and delay (debounce). @default "keep" */
  readonly mode?: "keep" | "replace";
  /** With "replace": the longest time from the first add until the job runs. */
  readonly maxWaitMs?: number;
}

/** The options of one job. */
export interface JobOptions {
  /** An id of your own. A second job with the same id is not added. @default generated */
  readonly id?: string;
  /** The delay before the job runs. */
  readonly delayMs?: number;
  /** The time of the Redis clock at which the job runs. */
  readonly runAt?: Date | number;
  /** Lower runs first, from -1048575 to 1048575. @default 0 */
  readonly priority?: number;
  /** Run it before the waiting jobs that have no priority and no group. @default false */
  readonly lifo?: boolean;
  /** The number of attempts. @default 1 */
  readonly attempts?: number;
  /** The wait between attempts; a number is a fixed delay. @default exponential from 1 s to 1 h */
  readonly backoff?: number | BackoffPlan;
  /** The longest time that one attempt may take. @default no limit */
  readonly timeoutMs?: number;
  /** A tenant. Groups take turns. */
  readonly group?: string;
  /** Jobs with the same key are not added twice. A string is a key. */
  readonly dedupe?: string | DedupePlan;
  /** How long the job stays after it ended. @default completed: not at all, failed: 10000 jobs for 90 days */
  readonly keep?: { readonly completed?: Retention; readonly failed?: Retention };
  /** Keep the outcome for a minute for result(), also that of a job that is there already. @default false */
  readonly awaited?: boolean;
}

/** The options of a queue in this process. */
export interface QueueOptions<Jobs = unknown> {
  /** The beginning of its keys. @default "ropeway:jobs" */
  readonly prefix?: string;
  /** Options of every job that does not set them itself. @default {} */
  readonly defaults?: JobOptions;
  /** The schemas of the jobs, made by defineJobs(). @default no validation */
  readonly jobs?: JobDefinitions<Jobs> | undefined;
}

/** A rate: at most `max` jobs in `perMs`. */
export interface Rate {
  readonly max: number;
  readonly perMs: number;
}

/** Limits of a queue, kept in Redis and obeyed by all workers; null removes one. */
export interface QueueLimits {
  /** Jobs running at the same time, over all workers. */
  readonly concurrency?: number | null;
  readonly rate?: Rate | null;
  /** Jobs of one group running at the same time. */
  readonly groupConcurrency?: number | null;
  readonly groupRate?: Rate | null;
}

/** Computes the wait in ms before the next attempt of a job. */
export type BackoffFunction = (attempt: number, error: unknown) => number;

/** Runs around every handler: calls next() and returns its result, or something else. */
export type Middleware = (job: JobContext, next: () => Promise<unknown>) => unknown;

/** How the handlers of a file run outside the worker's own thread. */
export interface SandboxOptions {
  /** A child process for each running job, or a worker thread, which starts faster. @default "process" */
  readonly kind?: "process" | "thread";
  /** The maximum size of its heap; a sandbox that needs more crashes. @default the limit of Node */
  readonly memoryMb?: number | undefined;
  /** How long a handler may continue after its signal was aborted, before it is killed. @default 500 */
  readonly killAfterMs?: number;
  /** How long loading the file may take. @default 10000 */
  readonly startWithinMs?: number;
  /** Options of Node for the sandbox. @default those of this process */
  readonly execArgv?: readonly string[];
}

/** The options of a worker. */
export interface WorkerOptions<Jobs = unknown> {
  /** The beginning of the queue's keys. @default "ropeway:jobs" */
  readonly prefix?: string;
  /** Jobs running at the same time. @default 1 */
  readonly concurrency?: number;
  /**
   * The maximum number of jobs that a batch handler gets at once; 0 for a handler of single jobs. @default
   * 0
   */
  readonly batch?: number;
  /** How long a job belongs to this worker after the last heartbeat. @default 30000 */
  readonly leaseMs?: number;
  /** How often a job may lose its worker before it fails. The last try runs alone. @default 3 */
  readonly maxStalls?: number;
  /**
   * The maximum number of jobs to fetch ahead; the number in use follows the handler's speed. @default 200
   */
  readonly prefetch?: number;
  /** How long close() waits for running handlers. @default 30000 */
  readonly closeWithinMs?: number;
  /** Backoff functions that jobs can name. @default {} */
  readonly backoffs?: Readonly<Record<string, BackoffFunction>>;
  /** Functions around every handler, the first one outermost. Not for batch handlers. @default [] */
  readonly middleware?: readonly Middleware[];
  /** The longest wait for a wake-up. @default 5000 */
  readonly idleMs?: number;
  /** Lines of a job's log that are kept. @default 100 */
  readonly logLines?: number;
  /** The name in lists of workers. @default host name and process id */
  readonly name?: string;
  /** @default the connection's */
  readonly logger?: Logger | undefined;
  /** Start at once; false waits for start(). @default true */
  readonly autostart?: boolean;
  /** The schemas of the jobs, made by defineJobs(). @default no validation */
  readonly jobs?: JobDefinitions<Jobs> | undefined;
  /** With a file of handlers: how they run. @default {} */
  readonly sandbox?: SandboxOptions;
}

const anObject = (value: unknown) => typeof value === "object" && value !== null;
const functions = (values: readonly unknown[]) =>
  values.every((value) => typeof value === "function");

const definitions = optional(
  satisfying<JobDefinitions<unknown>>(
    "made by defineJobs()",
    (value) => value instanceof JobDefinitions,
  ),
);

const queueTable: OptionTable<QueueOptions> = {
  prefix: { default: DEFAULT_PREFIX, rule: text },
  defaults: { default: {}, rule: satisfying<JobOptions>("job options", anObject) },
  jobs: { default: undefined, rule: definitions },
};

const workerTable: OptionTable<WorkerOptions> = {
  prefix: { default: DEFAULT_PREFIX, rule: text },
  concurrency: { default: 1, rule: integer(1, 10_000) },
  batch: { default: 0, rule: integer(0, 1_000) },
  leaseMs: { default: 30_000, rule: integer(50, 2_147_483_647) },
  maxStalls: { default: 3, rule: integer(0) },
  prefetch: { default: 200, rule: integer(0, 1_000) },
  closeWithinMs: { default: 30_000, rule: between(0, 2_147_483_647) },
  backoffs: {
    default: {},
    rule: satisfying(
      "functions by name",
      (value) => anObject(value) && functions(Object.values(value as object)),
    ),
  },
  middleware: {
    default: [],
    rule: satisfying("an array of functions", (value) => Array.isArray(value) && functions(value)),
  },
  idleMs: { default: 5_000, rule: integer(10, 600_000) },
  logLines: { default: 100, rule: integer(1, 10_000) },
  name: { default: "", rule: satisfying("a string", (value) => typeof value === "string") },
  logger: { default: undefined, rule: optional(satisfying<Logger>("a logger", anObject)) },
  autostart: { default: true, rule: flag },
  jobs: { default: undefined, rule: definitions },
  sandbox: { default: {}, rule: satisfying<SandboxOptions>("sandbox options", anObject) },
};

const sandboxTable: OptionTable<SandboxOptions> = {
  kind: { default: "process", rule: oneOf("process", "thread") },
  memoryMb: { default: undefined, rule: optional(integer(8, 1_048_576)) },
  killAfterMs: { default: 500, rule: between(0, 2_147_483_647) },
  startWithinMs: { default: 10_000, rule: between(1, 2_147_483_647) },
  execArgv: {
    default: process.execArgv,
    rule: satisfying(
      "an array of strings",
      (value) => Array.isArray(value) && value.every((part) => typeof part === "string"),
    ),
  },
};

/** A queue's options, with defaults filled in. */
export function resolveQueueOptions(
  given: QueueOptions<never> | undefined,
): Required<QueueOptions> {
  return resolveOptions(queueTable, given as QueueOptions | undefined);
}

/** A worker's options, with defaults filled in. */
export function resolveWorkerOptions(
  given: WorkerOptions<never> | undefined,
): Required<WorkerOptions> {
  return resolveOptions(workerTable, given as WorkerOptions | undefined);
}

/** A sandbox's options, with defaults filled in. */
export function resolveSandboxOptions(given: SandboxOptions | undefined): Required<SandboxOptions> {
  return resolveOptions(sandboxTable, given);
}
