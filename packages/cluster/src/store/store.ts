/**
 * The one interface to the place where a cluster keeps its state. Two implementations pass one
 * conformance suite: etcd and Redis. The model is etcd's:
 *
 *   - Keys are paths such as /tasks/taskid/task_1; values are text.
 *   - Every transaction that changes something takes the next revision. Revisions never go back.
 *   - An entry knows the revision that created it, the one that changed it last, and its version (1 for
 *     a new key). Deleting and creating again starts over with a higher createRevision, which is what
 *     makes createRevision a fencing token.
 *   - A lease ends if it is not renewed within its time to live. Its keys are removed with it.
 *   - A watch reports every change from a revision on, once and in order, across lost connections and
 *     restarts, or fails with CompactedError if the store no longer keeps those changes.
 *
 * A write that failed with StoreUnavailableError may have been made (`maybeApplied`). The writer must be
 * able to repeat the write, or to find out.
 */

/** One key with its value. */
export interface Entry {
  readonly key: string;
  readonly value: string;
  readonly createRevision: number;
  readonly modRevision: number;
  readonly version: number;
  /** The lease that holds the key, or undefined. */
  readonly lease: string | undefined;
}

/** What a condition looks at: a key that does not exist has 0 for the first three. */
export type Compare =
  | {
      readonly key: string;
      readonly target: "create" | "mod" | "version";
      readonly is: "=" | "!=" | "<" | ">";
      readonly than: number;
    }
  | {
      readonly key: string;
      readonly target: "value";
      readonly is: "=" | "!=";
      /** A key that does not exist is neither equal nor unequal: the condition fails. */
      readonly than: string;
    };

/** A change, or a read in the same transaction. */
export type Operation =
  | {
      readonly op: "put";
      readonly key: string;
      readonly value: string;
      readonly lease?: string | undefined;
    }
  | { readonly op: "delete"; readonly key: string }
  | { readonly op: "get"; readonly key: string };

/** If all conditions hold, the list `do` is carried out, otherwise `else`. */
export interface Transaction {
  readonly if?: readonly Compare[];
  readonly do: readonly Operation[];
  readonly else?: readonly Operation[];
  /** Write also while Redis is out of memory: for what must be noted before something is removed. @default false */
  readonly evenIfFull?: boolean | undefined;
}

/** How a transaction ended. */
export interface TransactionResult {
  readonly succeeded: boolean;
  /** The store's revision after it; the one it took, if it changed something. */
  readonly revision: number;
  /** What its `get` operations found, in their order. */
  readonly found: readonly (Entry | undefined)[];
}

/** Which part of a prefix to read. */
export interface RangeOptions {
  /** Only keys that sort after this one. */
  readonly after?: string | undefined;
  /** The maximum number of entries, from 1 to 1000. @default 1000 */
  readonly limit?: number | undefined;
}

/** Entries in the order of their keys. */
export interface RangeResult {
  readonly entries: readonly Entry[];
  /** Watch from this + 1 to miss nothing. Entries may be newer than it, never older. */
  readonly revision: number;
  /** Whether more keys follow. */
  readonly more: boolean;
}

/** A granted lease. */
export interface Grant {
  readonly id: string;
  /** What the store granted; etcd rounds up to seconds and has a minimum of 2. */
  readonly ttlMs: number;
}

/** One change. `entry` of a deletion has the key, an empty value and the revision of the deletion. */
export interface WatchEvent {
  readonly type: "put" | "delete";
  readonly entry: Entry;
}

/** What to watch. */
export interface WatchOptions {
  /** Ends with "/", or is a whole key. */
  readonly prefix: string;
  /** The first revision to report. */
  readonly from: number;
  readonly signal: AbortSignal;
}

/** Facts about the store. */
export interface StoreStatus {
  readonly version: string;
  readonly revision: number;
}

/** A connected store. */
export interface Store extends AsyncDisposable {
  readonly kind: "etcd" | "redis";
  /** The place, for messages; without passwords. */
  readonly where: string;
  get(key: string): Promise<Entry | undefined>;
  /** Returns the revision that it took. */
  put(key: string, value: string, lease?: string): Promise<number>;
  /** Whether there was something to delete. */
  delete(key: string): Promise<boolean>;
  /** Reads keys that begin with `prefix`, which ends with "/". */
  range(prefix: string, options?: RangeOptions): Promise<RangeResult>;
  txn(transaction: Transaction): Promise<TransactionResult>;
  grant(ttlMs: number): Promise<Grant>;
  /** The lease's new time to live in ms; 0 if it has ended. */
  keepAlive(lease: string): Promise<number>;
  /** Ends a lease now, with its keys. */
  revoke(lease: string): Promise<void>;
  /**
   * Changes from a revision on, in batches of whole revisions. Survives lost connections. Throws
   * CompactedError if changes are missing; ends when the signal aborts.
   */
  watch(options: WatchOptions): AsyncIterable<readonly WatchEvent[]>;
  status(): Promise<StoreStatus>;
  close(): Promise<void>;
}
