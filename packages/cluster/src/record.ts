/** JSON records in the store: reading them without trusting them, and changing them without a race. */
import { ConflictError, StoreUnavailableError } from "./errors.ts";
import { MAX_OPERATIONS, MAX_RANGE } from "./store/limits.ts";
import type {
  Compare,
  Entry,
  Operation,
  Store,
  Transaction,
  TransactionResult,
} from "./store/store.ts";

/** The object in an entry; undefined if there is none, or something that is not an object. */
export function recordOf<T extends object>(entry: Entry | undefined): T | undefined {
  if (entry === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(entry.value);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as T)
      : undefined;
  } catch {
    return undefined; // written by another program: it counts as absent
  }
}

/** The last millisecond of the year 9999: responses have no form for a later time. */
const LAST_TIME = 253_402_300_799_999;

/** A time in a record, ms since 1970; undefined if it is out of range. */
export function timeOf(value: unknown): number | undefined {
  const usable = typeof value === "number" && value >= 0 && value <= LAST_TIME;
  return usable ? value : undefined;
}

/** A string in a record; "" if it is none. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A whole number in a record; 0 if it is none. */
export function countOf(value: unknown): number {
  return Number.isSafeInteger(value) ? (value as number) : 0;
}

/** A put of a record. */
export function putRecord(key: string, value: object, lease?: string): Operation {
  return { op: "put", key, value: JSON.stringify(value), lease };
}

/** The key does not exist. */
export function absent(key: string): Compare {
  return { key, target: "create", is: "=", than: 0 };
}

/** The key has not changed since it was read. */
export function unchanged(key: string, entry: Entry | undefined): Compare {
  return { key, target: "mod", is: "=", than: entry?.modRevision ?? 0 };
}

/** The key is still the one that was created at that revision. */
export function createdAt(key: string, revision: number): Compare {
  return { key, target: "create", is: "=", than: revision };
}

/**
 * An entry, and the store's revision when it was read. A watch that goes on from there begins behind it, and not
 * behind the entry's last change: the history since then may be gone.
 */
export async function readAt(
  store: Store,
  key: string,
): Promise<{ readonly entry: Entry | undefined; readonly revision: number }> {
  const { found, revision } = await store.txn({ do: [{ op: "get", key }] });
  return { entry: found[0], revision };
}

/** Reads many keys, each as it is at some moment. */
export async function getMany(
  store: Store,
  paths: readonly string[],
): Promise<(Entry | undefined)[]> {
  const found: (Entry | undefined)[] = [];
  for (let at = 0; at < paths.length; at += MAX_OPERATIONS) {
    const part = paths.slice(at, at + MAX_OPERATIONS);
    const result = await store.txn({ do: part.map((key) => ({ op: "get", key })) });
    found.push(...result.found);
  }
  return found;
}

/** Every entry of a prefix, page by page; `revision` is that of the first page. */
export async function rangeAll(
  store: Store,
  prefix: string,
): Promise<{ readonly entries: readonly Entry[]; readonly revision: number }> {
  const entries: Entry[] = [];
  let revision = 0;
  for (let after: string | undefined; ; ) {
    const page = await store.range(prefix, { after, limit: MAX_RANGE });
    if (after === undefined) revision = page.revision;
    entries.push(...page.entries);
    after = page.entries.at(-1)?.key;
    if (!page.more || after === undefined) return { entries, revision };
  }
}

const CREATE_TRIES = 3;

/**
 * Creates records that do not exist yet, all or none; false if one exists, or a condition of `also` does not hold,
 * which adds to the transaction. A response that was lost is not a
 * failure: what is stored shows whether the records are ours, and if there is nothing, it is safe to try again.
 */
export async function createRecords(
  store: Store,
  records: Readonly<Record<string, object>>,
  also: Pick<Transaction, "if" | "do"> = { do: [] },
): Promise<boolean> {
  const paths = Object.keys(records);
  const puts = Object.entries(records).map(([key, value]) => putRecord(key, value));
  const isOurs = (entry: Entry | undefined, at: number) =>
    entry?.value === JSON.stringify(records[paths[at] ?? ""]);
  for (let tries = 1; ; tries++) {
    try {
      const { succeeded, found } = await store.txn({
        if: [...paths.map(absent), ...(also.if ?? [])],
        do: [...puts, ...also.do],
        else: paths.map((key) => ({ op: "get", key })),
      });
      return succeeded || (tries > 1 && found.every(isOurs));
    } catch (error) {
      const unsure = error instanceof StoreUnavailableError && error.maybeApplied;
      if (!unsure || tries === CREATE_TRIES) throw error;
    }
  }
}

/** What a change may do. */
export interface Change<R> {
  readonly if?: readonly Compare[];
  readonly do: readonly Operation[];
  /** What the next attempt reads, if another writer came in between. */
  readonly else?: readonly Operation[];
  readonly result: R;
}

const MOST_CONFLICTS = 20;

/**
 * Reads, decides and writes, until no other writer came in between. `decide` throws to give up; what it
 * reads it must compare in `if`. It gets what the `else` of its last attempt has found: a decision that
 * reads nothing else succeeds even if others write all the time.
 */
export async function optimistically<R>(
  store: Store,
  what: string,
  decide: (found?: TransactionResult["found"]) => Promise<Change<R>>,
): Promise<R> {
  let found: TransactionResult["found"] | undefined;
  for (let conflicts = 0; conflicts < MOST_CONFLICTS; conflicts++) {
    const { result, ...transaction } = await decide(found);
    if (transaction.do.length === 0) return result;
    const outcome = await store.txn(transaction);
    if (outcome.succeeded) return result;
    found = outcome.found;
  }
  throw new ConflictError(what);
}
