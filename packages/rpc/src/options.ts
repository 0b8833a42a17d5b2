/** All options of clients, servers and calls, with their defaults. */
import { InvalidOptionError } from "@ropeway/core";
import {
  between,
  flag,
  integer,
  milliseconds,
  type OptionTable,
  oneOf,
  optional,
  type Rule,
  resolveOptions,
  satisfying,
  text,
} from "@ropeway/core/internal";
import type { Metadata, Progress } from "./wire/dialect.ts";

/** The wire, and its namespace or prefix. */
export interface WireOptions {
  /** `jsonrpc`: one list per service, sessions. `kw`: one list per function. @default "jsonrpc" */
  readonly dialect?: "jsonrpc" | "kw";
  /** The namespace of the jsonrpc wire. On Cluster with a hash tag: "{prod}". @default "default" */
  readonly ns?: string;
  /** The prefix of the kw wire. On Cluster with a hash tag. @default "redis_rpc" */
  readonly prefix?: string;
  /** Larger calls, responses and stream items are refused. @default 16777216 */
  readonly maxMessageBytes?: number;
}

const YEAR_MS = 365 * 24 * 3_600_000;
/** A deadline on the wire has thirteen digits. */
const timeout: Rule<number> = {
  ...between(1, YEAR_MS),
  allowed: `a number of milliseconds from 1 to ${YEAR_MS}`,
};

const wire: OptionTable<WireOptions> = {
  dialect: { default: "jsonrpc", rule: oneOf("jsonrpc", "kw") },
  ns: { default: "default", rule: text },
  prefix: { default: "redis_rpc", rule: text },
  maxMessageBytes: { default: 16 * 1024 * 1024, rule: integer(1) },
};

/** How a client behaves. */
export interface ClientOptions extends WireOptions {
  /** The maximum time from sending a call to its response. @default 10000 */
  readonly timeoutMs?: number;
  /** A call to a service without a live worker waits for one, or fails at once. @default "queue" */
  readonly whenDown?: "queue" | "fail";
  /**
   * Where responses arrive: `auto` in one list per client if every live worker supports it, else under
   * the documented keys; `keys` always under these keys; `list` never. @default "auto"
   */
  readonly replies?: "auto" | "keys" | "list";
  /** The maximum number of times that an idempotent call is sent. @default 3 */
  readonly attempts?: number;
  /** The maximum duration of one attempt of an idempotent call. @default the remaining time */
  readonly attemptTimeoutMs?: number | undefined;
  /** Refuse calls to a service that keeps failing. @default off */
  readonly breaker?: BreakerOptions | undefined;
  /** Limit the calls to one service that are under way. @default off */
  readonly bulkhead?: BulkheadOptions | undefined;
  /** The maximum number of items of a stream under way or unread. @default 256 */
  readonly window?: number;
  /** A stream whose worker sends nothing for this long is broken. @default 30000 */
  readonly streamIdleMs?: number;
  /** How long a session's node is remembered after its last call. @default 600000 */
  readonly sessionTtlMs?: number;
  /** Use the commands of Redis 6.2 only. @internal */
  readonly plainPop?: boolean;
}

/** When calls to a failing service are refused. */
export interface BreakerOptions {
  /** The fraction of failed calls that opens the breaker. @default 0.5 */
  readonly failureRate?: number;
  /** The minimum number of calls before it can open. @default 20 */
  readonly minCalls?: number;
  /** The time over which calls are counted. @default 60000 */
  readonly windowMs?: number;
  /** How long an open breaker waits before it admits one call. @default 10000 */
  readonly halfOpenAfterMs?: number;
}

/** How many calls to one service may be under way. */
export interface BulkheadOptions {
  /** The maximum number of calls under way. @default 100 */
  readonly running?: number;
  /** The maximum number of calls that wait for one of these to end; more are refused. @default 100 */
  readonly waiting?: number;
}

const anObject = satisfying<object>("an object", (v) => typeof v === "object" && v !== null);

export const clientTable: OptionTable<ClientOptions> = {
  ...wire,
  timeoutMs: { default: 10_000, rule: timeout },
  whenDown: { default: "queue", rule: oneOf("queue", "fail") },
  replies: { default: "auto", rule: oneOf("auto", "keys", "list") },
  attempts: { default: 3, rule: integer(1, 10) },
  attemptTimeoutMs: { default: undefined, rule: optional(timeout) },
  breaker: { default: undefined, rule: optional(anObject as Rule<BreakerOptions>) },
  bulkhead: { default: undefined, rule: optional(anObject as Rule<BulkheadOptions>) },
  window: { default: 256, rule: integer(1, 65_536) },
  streamIdleMs: { default: 30_000, rule: milliseconds(100) },
  sessionTtlMs: { default: 600_000, rule: milliseconds(1_000) },
  plainPop: { default: false, rule: flag },
};

export const breakerTable: OptionTable<BreakerOptions> = {
  failureRate: { default: 0.5, rule: between(0, 1) },
  minCalls: { default: 20, rule: integer(1) },
  windowMs: { default: 60_000, rule: milliseconds(1) },
  halfOpenAfterMs: { default: 10_000, rule: milliseconds(1) },
};

export const bulkheadTable: OptionTable<BulkheadOptions> = {
  running: { default: 100, rule: integer(1) },
  waiting: { default: 100, rule: integer(0) },
};

/** How a server behaves. */
export interface ServerOptions extends WireOptions {
  /** The maximum number of calls that run at a time. @default 256 */
  readonly concurrency?: number;
  /** This node's name, unique among the workers of a service. @default random */
  readonly node?: string | undefined;
  /** Take part in this session group. @default none */
  readonly group?: string | undefined;
  /** The version shown in the registry. @default "" */
  readonly version?: string;
  /**
   * Run the calls of a dead worker again on another worker. A handler may then run twice for one call.
   * @default false
   */
  readonly atLeastOnce?: boolean;
  /** The maximum number of runs of an at-least-once call before it is moved to the dead list. @default 5 */
  readonly maxRuns?: number;
  /** How often the worker renews its keys. After three missed renewals it counts as dead. @default 1000 */
  readonly heartbeatMs?: number;
  /** How long responses and progress wait for their caller, in seconds. @default 120 */
  readonly resultTtlSeconds?: number;
  /** How long close() waits for running calls. @default 10000 */
  readonly closeWithinMs?: number;
  /** A stream whose reader sends nothing for this long is cancelled. @default 30000 */
  readonly streamIdleMs?: number;
  /** Refuse calls that waited too long, or when too many wait. @default off */
  readonly loadShedding?: LoadSheddingOptions | undefined;
  /**
   * Send the message and stack of an undeclared error to the caller. @default true if NODE_ENV is
   * "development", else false
   */
  readonly exposeErrors?: boolean | undefined;
  /** Use the commands of Redis 6.2 only. @internal */
  readonly plainPop?: boolean;
}

/** When a server refuses calls with OVERLOADED. */
export interface LoadSheddingOptions {
  /** The maximum number of waiting calls of a service; the oldest beyond it are refused. @default none */
  readonly maxQueueLength?: number | undefined;
  /** The maximum time that a call may have waited. @default none */
  readonly maxQueueAgeMs?: number | undefined;
  /**
   * The maximum time that a call may have waited if all calls of the last `intervalMs` waited longer
   * (controlled delay). @default none
   */
  readonly targetDelayMs?: number | undefined;
  /** How long all calls may wait longer than `targetDelayMs` before some are refused. @default 1000 */
  readonly intervalMs?: number;
}

export const loadSheddingTable: OptionTable<LoadSheddingOptions> = {
  maxQueueLength: { default: undefined, rule: optional(integer(0)) },
  maxQueueAgeMs: { default: undefined, rule: optional(milliseconds(1)) },
  targetDelayMs: { default: undefined, rule: optional(milliseconds(1)) },
  intervalMs: { default: 1_000, rule: milliseconds(1) },
};

export const serverTable: OptionTable<ServerOptions> = {
  ...wire,
  concurrency: { default: 256, rule: integer(1, 100_000) },
  node: { default: undefined, rule: optional(text) },
  group: { default: undefined, rule: optional(text) },
  version: { default: "", rule: satisfying("a string", (v) => typeof v === "string") },
  atLeastOnce: { default: false, rule: flag },
  maxRuns: { default: 5, rule: integer(1) },
  heartbeatMs: { default: 1_000, rule: milliseconds(10) },
  resultTtlSeconds: { default: 120, rule: integer(1) },
  closeWithinMs: { default: 10_000, rule: milliseconds() },
  streamIdleMs: { default: 30_000, rule: milliseconds(100) },
  loadShedding: { default: undefined, rule: optional(anObject as Rule<LoadSheddingOptions>) },
  exposeErrors: { default: undefined, rule: optional(flag) },
  plainPop: { default: false, rule: flag },
};

/** The options of one call. */
export interface CallOptions {
  /** How long the call may take. @default the client's */
  readonly timeoutMs?: number | undefined;
  /** Cancels the call, also in the worker. */
  readonly signal?: AbortSignal | undefined;
  /** Whether the call may be sent again, because running it twice is harmless. @default the service's */
  readonly idempotent?: boolean | undefined;
  /** Wait for a worker, or fail at once if there is none. @default the client's */
  readonly whenDown?: "queue" | "fail" | undefined;
  /** Called with each progress report. */
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** Headers for middleware and handler, such as an access token or a tenant. */
  readonly metadata?: Metadata | undefined;
}

/** The options of one stream. */
export interface StreamOptions extends CallOptions {
  /** The maximum number of items under way or unread. @default the client's */
  readonly window?: number | undefined;
}

/** The options of submit() and notify(). */
export interface SubmitOptions extends Pick<CallOptions, "idempotent" | "whenDown" | "metadata"> {
  /** Cancels the call until it is sent. After that, `client.cancel(ticket)` does. */
  readonly signal?: AbortSignal | undefined;
  /** A call that has not started within this time is refused. @default 120000 */
  readonly timeoutMs?: number | undefined;
  /** Let the worker report progress. @default true */
  readonly track?: boolean | undefined;
}

/** The options of poll(). */
export interface PollOptions {
  /** How long to wait for the response. @default 0 */
  readonly waitMs?: number | undefined;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
}

/** The options of progress(). */
export interface ProgressOptions {
  /** Ends the iteration when no report arrived for this long. @default 120000 */
  readonly idleMs?: number | undefined;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
}

const aSignal = satisfying<AbortSignal>("an AbortSignal", (v) => v instanceof AbortSignal);
const headers = satisfying<Metadata>("an object of strings", (v) => {
  if (typeof v !== "object" || v === null || Array.isArray(v)) return false;
  return Object.values(v).every((header) => typeof header === "string");
});
const aFunction = satisfying<(progress: Progress) => void>(
  "a function",
  (v) => typeof v === "function",
);

export const callTable: OptionTable<CallOptions> = {
  timeoutMs: { default: undefined, rule: optional(timeout) },
  signal: { default: undefined, rule: optional(aSignal) },
  idempotent: { default: undefined, rule: optional(flag) },
  whenDown: { default: undefined, rule: optional(oneOf("queue", "fail")) },
  onProgress: { default: undefined, rule: optional(aFunction) },
  metadata: { default: undefined, rule: optional(headers) },
};

export const streamTable: OptionTable<StreamOptions> = {
  ...callTable,
  window: { default: undefined, rule: optional(integer(1, 65_536)) },
};

export const submitTable: OptionTable<SubmitOptions> = {
  timeoutMs: { default: 120_000, rule: timeout },
  signal: { default: undefined, rule: optional(aSignal) },
  idempotent: { default: undefined, rule: optional(flag) },
  whenDown: { default: undefined, rule: optional(oneOf("queue", "fail")) },
  metadata: { default: undefined, rule: optional(headers) },
  track: { default: true, rule: flag },
};

export const pollTable: OptionTable<PollOptions> = {
  waitMs: { default: 0, rule: milliseconds() },
  signal: { default: undefined, rule: optional(aSignal) },
};

export const progressTable: OptionTable<ProgressOptions> = {
  idleMs: { default: 120_000, rule: milliseconds(1) },
  signal: { default: undefined, rule: optional(aSignal) },
};

/** Checks the options of one call without creating an object. Throws InvalidOptionError. */
export function checkOptions<T extends object>(table: OptionTable<T>, given: T): void {
  if (typeof given !== "object" || Array.isArray(given)) resolveOptions(table, given); // throws
  for (const name in given) {
    const value = given[name];
    if (value === undefined) continue;
    const spec = Object.hasOwn(table, name) ? table[name] : undefined;
    if (spec === undefined)
      resolveOptions(table, { [name]: value } as Partial<T>); // throws
    else if (!spec.rule.accepts(value))
      throw new InvalidOptionError(name, value, spec.rule.allowed);
  }
}
