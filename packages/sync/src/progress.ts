/** The counters of a task. The code that does the work increases them, and displays read them. */

import type { Position } from "./checkpoint.ts";

/** Why a key took the slow path, or was left out. Each reason has a counter. */
export type KeyReason =
  | "restore" // fast: its raw value was sent with RESTORE
  | "set" // fast: a string was sent with SET
  | "big" // slow: the value is larger than the blocking budget
  | "type" // slow: the target cannot restore this type
  | "policy" // slow: `path` is "slow"
  | "retried" // slow: the target refused the raw value
  | "expired" // left out: it has expired, and nothing renews it
  | "filtered" // left out by a filter or a transform
  | "own" // left out: it is one of Ropeway's own
  | "kept"; // left out: the target has the key, and `existing` is "keep"

/** The status of a task. The names are those of RedisSyncer. */
export const SYNC_STATUS = {
  STOP: 0,
  CREATING: 1,
  CREATED: 2,
  STARTING: 3,
  BROKEN: 5,
  RDBRUNNING: 6,
  COMMANDRUNNING: 7,
  FINISH: 8,
  FAILOVER: 9,
} as const;

/** The name of a task's status. */
export type SyncStatus = keyof typeof SYNC_STATUS;

/** A snapshot of a task's counters. */
export interface SyncProgress {
  readonly phase: SyncStatus;
  /** Keys of snapshots that were written. */
  readonly keys: number;
  /** Keys that the snapshots announced; undefined if they did not. */
  readonly totalKeys: number | undefined;
  /** Bytes read from snapshots and streams. */
  readonly bytes: number;
  readonly snapshotBytes: number;
  /** The size of the snapshots, if the sources announced it. */
  readonly totalSnapshotBytes: number | undefined;
  /** Commands of streams that were applied. */
  readonly commands: number;
  /** Keys and commands per second, over the last seconds. */
  readonly opsPerS: number;
  readonly bytesPerS: number;
  /**
   * The age of the newest data that the target has, compared with the source; undefined while it is not
   * known.
   */
  readonly lagMs: number | undefined;
  /** Bytes of the stream that the target does not have yet. */
  readonly lagBytes: number;
  /** The sum of the shards' offsets. */
  readonly offset: number;
  /** The position of each shard that follows its source. */
  readonly positions: readonly Position[];
  readonly epoch: number;
  /** Keys by outcome. */
  readonly reasons: Readonly<Partial<Record<KeyReason, number>>>;
  /** Writes that failed and were recorded. */
  readonly errors: number;
  /** How often the stream was continued, and how often a full synchronisation began again. */
  readonly partialResyncs: number;
  readonly fullResyncs: number;
  /** What the task is waiting for, if anything. */
  readonly stalled: string | undefined;
}

const WINDOW_MS = 3_000;

/** The counters of one shard's run. They are plain fields, because hot loops add to them. */
export class Counters {
  keys = 0;
  totalKeys: number | undefined;
  snapshotBytes = 0;
  totalSnapshotBytes: number | undefined;
  streamBytes = 0;
  commands = 0;
  offset = 0;
  /** The history that the offset belongs to; undefined before the stream begins. */
  replid: string | undefined;
  db = 0;
  feed: { readonly received: number } | undefined;
  partialResyncs = 0;
  fullResyncs = 0;
  stalled: string | undefined;
  /** When the target last had everything that had been received. */
  caughtUpAt: number | undefined;
  readonly reasons: Map<KeyReason, number> = new Map();

  count(reason: KeyReason, keys: number = 1): void {
    this.reasons.set(reason, (this.reasons.get(reason) ?? 0) + keys);
  }

  /** The last byte of the stream that was received. */
  get received(): number {
    return this.feed?.received ?? 0;
  }

  get lagMs(): number | undefined {
    if (this.caughtUpAt === undefined) return undefined;
    return this.offset >= this.received ? 0 : Date.now() - this.caughtUpAt;
  }
}

/** Rates over the last seconds, from readings of a growing count. */
export class RateMeter {
  readonly #readings: { readonly at: number; readonly value: number }[] = [];

  /** The growth per second up to this value. */
  read(value: number): number {
    const at = performance.now();
    this.#readings.push({ at, value });
    while (this.#readings.length > 2 && at - (this.#readings[0]?.at ?? at) > WINDOW_MS) {
      this.#readings.shift();
    }
    const [oldest] = this.#readings;
    if (oldest === undefined || at - oldest.at < 1) return 0;
    return Math.max(0, ((value - oldest.value) * 1_000) / (at - oldest.at));
  }
}
