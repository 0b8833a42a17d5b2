/** All options of clients, servers and calls, with their defaults. */
import {
  flag,
  integer,
  milliseconds,
  type OptionTable,
  oneOf,
  optional,
  satisfying,
  text,
} from "@ropeway/core/internal";
import type { Progress } from "./wire/dialect.ts";

/** Which wire, and where on it. */
export interface WireOptions {
  /** `jsonrpc`: one list per service, discovery, sessions, streams. `kw`: seed 002's. @default "jsonrpc" */
  readonly dialect?: "jsonrpc" | "kw";
  /** The namespace of the jsonrpc wire. On Cluster with a hash tag: "{prod}". @default "default" */
  readonly ns?: string;
  /** The prefix of the kw wire. On Cluster with a hash tag. @default "redis_rpc" */
  readonly prefix?: string;
  /** Larger calls, answers and stream items are refused. @default 16777216 */
  readonly maxMessageBytes?: number;
}

const wire: OptionTable<WireOptions> = {
  dialect: { default: "jsonrpc", rule: oneOf("jsonrpc", "kw") },
  ns: { default: "default", rule: text },
  prefix: { default: "redis_rpc", rule: text },
  maxMessageBytes: { default: 16 * 1024 * 1024, rule: integer(1) },
};

/** How a client behaves. */
export interface ClientOptions extends WireOptions {
  /** How long a call may take from its sending to its answer. @default 10000 */
  readonly timeoutMs?: number;
  /** A call to a service without a live worker waits for one, or fails at once. @default "queue" */
  readonly whenDown?: "queue" | "fail";
  /**
   * Where answers come: `auto` in one list per client if every live worker can, else under the
   * documented keys; `keys` always there; `list` never there. @default "auto"
   */
  readonly replies?: "auto" | "keys" | "list";
  /** At most how often an idempotent call is sent. @default 3 */
  readonly attempts?: number;
  /** How long one attempt of an idempotent call may take. @default a fraction of the whole time */
  readonly attemptTimeoutMs?: number | undefined;
  /** Refuse calls to a service that keeps failing. @default off */
  readonly breaker?: BreakerOptions | undefined;
  /** Bound the calls to one service that are under way. @default off */
  readonly bulkhead?: BulkheadOptions | undefined;
  /** How many items of a stream may be under way or unread. @default 256 */
  readonly window?: number;
  /** A stream that is silent for so long is broken. @default 30000 */
  readonly streamIdleMs?: number;
  /** How long a session's node is remembered after its last call. @default 600000 */
  readonly sessionTtlMs?: number;
  /** Use the commands of Redis 6.2 only. @internal */
  readonly plainPop?: boolean;
}

/** When calls to a failing service are refused. */
export interface BreakerOptions {
  /** Open when this part of the calls has failed. @default 0.5 */
  readonly failureRate?: number;
  /** ... of at least so many. @default 20 */
  readonly minCalls?: number;
  /** ... within this time. @default 60000 */
  readonly windowMs?: number;
  /** Then one call is let through after this time. @default 10000 */
  readonly halfOpenAfterMs?: number;
}

/** How many calls to one service may be under way. */
export interface BulkheadOptions {
  /** @default 100 */
  readonly running?: number;
  /** More wait here; further ones are refused. @default 100 */
  readonly waiting?: number;
}

const anObject = satisfying<object>("an object", (v) => typeof v === "object" && v !== null);

export const clientTable: OptionTable<ClientOptions> = {
  ...wire,
  timeoutMs: { default: 10_000, rule: milliseconds(1) },
  whenDown: { default: "queue", rule: oneOf("queue", "fail") },
  replies: { default: "auto", rule: oneOf("auto", "keys", "list") },
  attempts: { default: 3, rule: integer(1, 10) },
  attemptTimeoutMs: { default: undefined, rule: optional(milliseconds(1)) },
  breaker: { default: undefined, rule: optional(anObject as never) },
  bulkhead: { default: undefined, rule: optional(anObject as never) },
  window: { default: 256, rule: integer(1, 65_536) },
  streamIdleMs: { default: 30_000, rule: milliseconds(100) },
  sessionTtlMs: { default: 600_000, rule: milliseconds(1_000) },
  plainPop: { default: false, rule: flag },
};

export const breakerTable: OptionTable<BreakerOptions> = {
  failureRate: {
    default: 0.5,
    rule: satisfying("a number from 0 to 1", (v) => Number(v) >= 0 && Number(v) <= 1),
  },
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
  /** How many calls run at a time. @default 256 */
  readonly concurrency?: number;
  /** This node's name, unique among the workers of a service. @default random */
  readonly node?: string | undefined;
  /** Take part in this session group. @default none */
  readonly group?: string | undefined;
  /** The version the registry shows. @default "" */
  readonly version?: string;
  /**
   * Calls outlive the worker that runs them: one that dies has its calls run again elsewhere. The
   * handlers must bear that. @default false
   */
  readonly atLeastOnce?: boolean;
  /** At most how often a call is run, worker deaths included, before it is set aside. @default 5 */
  readonly maxRuns?: number;
  /** How often the worker says that it lives; three missed ones mean that it does not. @default 3000 */
  readonly heartbeatMs?: number;
  /** How long answers and progress wait for their caller, in seconds. @default 120 */
  readonly resultTtlSeconds?: number;
  /** How long close() waits for running calls. @default 10000 */
  readonly closeWithinMs?: number;
  /** A stream whose reader is silent for so long is given up. @default 30000 */
  readonly streamIdleMs?: number;
  /** Use the commands of Redis 6.2 only. @internal */
  readonly plainPop?: boolean;
}

export const serverTable: OptionTable<ServerOptions> = {
  ...wire,
  concurrency: { default: 256, rule: integer(1, 100_000) },
  node: { default: undefined, rule: optional(text) },
  group: { default: undefined, rule: optional(text) },
  version: { default: "", rule: satisfying("a text", (v) => typeof v === "string") },
  atLeastOnce: { default: false, rule: flag },
  maxRuns: { default: 5, rule: integer(1) },
  heartbeatMs: { default: 3_000, rule: milliseconds(10) },
  resultTtlSeconds: { default: 120, rule: integer(1) },
  closeWithinMs: { default: 10_000, rule: milliseconds() },
  streamIdleMs: { default: 30_000, rule: milliseconds(100) },
  plainPop: { default: false, rule: flag },
};

/** What can be said about one call. */
export interface CallOptions {
  /** @default the client's */
  readonly timeoutMs?: number | undefined;
  /** Gives the call up; the worker is told. */
  readonly signal?: AbortSignal | undefined;
  /** Running it twice does no harm: it may be sent again. @default what the service's description says */
  readonly idempotent?: boolean | undefined;
  /** @default the client's */
  readonly whenDown?: "queue" | "fail" | undefined;
  /** Told of each progress report. */
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}
