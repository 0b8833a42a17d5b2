/** Every key of a lock. The first is the documented one; the others share its slot (see keyspace.ts). */
import { beside, headOf } from "../keyspace.ts";

/** The keys of one lock. */
export interface LockKeys {
  /** string: the token of the holder, or `rw1:readers` while readers hold it. Absent: free. */
  readonly lock: string;
  /** string: the last fence. Expires a day after the time it stands for. */
  readonly fence: string;
  /** zset: token -> place. Only while a process waits. */
  readonly queue: string;
  /** hash: token -> "ms when the place ends" SPACE "w" or "r" SPACE list to wake. */
  readonly waiters: string;
  /** zset: token -> ms when it ends. Only while readers hold the lock. */
  readonly readers: string;
  /** set: entry ids of a holder that entered more than once; "0" is the first. */
  readonly entries: string;
  /** In the order of the script. */
  readonly all: readonly string[];
}

const FAMILIES = ["fence", "queue", "waiters", "readers", "entries"] as const;

/** The keys of the lock `name`. */
export function lockKeys(prefix: string, name: string): LockKeys {
  const head = headOf(prefix);
  const lock = `${head}lock:${name}`;
  const [fence, queue, waiters, readers, entries] = FAMILIES.map((family) =>
    beside(lock, { head, family: `lock-${family}`, name }),
  ) as [string, string, string, string, string];
  const all = [lock, fence, queue, waiters, readers, entries];
  return { lock, fence, queue, waiters, readers, entries, all };
}

/** What the keys of all locks under a prefix begin with. */
export function lockHead(prefix: string): string {
  return `${headOf(prefix)}lock:`;
}
