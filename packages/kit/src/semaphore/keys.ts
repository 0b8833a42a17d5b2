/**
 * Every key of a semaphore. The first three and the lock are the documented ones, so on Cluster the
 * prefix or the name needs a hash tag.
 */
import { InvalidNameError } from "@ropeway/core";
import { checkName, headOf, isPartKey } from "../keyspace.ts";

const PARTS = ["owner", "counter", "leases", "queue", "waiters", "limit", "others"] as const;
const KEY_OF_ANOTHER = new RegExp(`:(${PARTS.join("|")})$`);

/**
 * Whether a name is usable. The documented key of a semaphore is its name as it is, so a name can be a key of
 * another semaphore (`printers:leases`) or of another part (`chat:7`). Both would remove what they do not know.
 */
export function isSemaphoreName(name: string): boolean {
  return !KEY_OF_ANOTHER.test(name) && !isPartKey(name);
}

/** Throws InvalidNameError for a name that cannot be used. */
export function checkSemaphoreName(name: unknown): asserts name is string {
  const what = "the name of a semaphore";
  checkName(what, name);
  if (isSemaphoreName(name)) return;
  const ends = PARTS.map((part) => `":${part}"`).join(", ");
  const allowed = `a name that does not end in ${ends}, and does not begin like a key of another part ("lock:", "chat:")`;
  throw new InvalidNameError(what, name, allowed);
}

/** The keys of one semaphore. */
export interface SemaphoreKeys {
  /** zset: token -> when it was acquired or renewed last, unix seconds. */
  readonly times: string;
  /** zset: token -> the counter when it was acquired. */
  readonly owner: string;
  /** string: counts acquisitions. Removed by the release that leaves no permit. */
  readonly counter: string;
  /** zset: token -> ms when it ends; only tokens of ours. */
  readonly leases: string;
  /** zset: token -> place. Only while a process waits. */
  readonly queue: string;
  /** hash: token -> "ms when the place ends" SPACE list to wake. */
  readonly waiters: string;
  /** string: the limit that resize() set for all processes. */
  readonly limit: string;
  /** string: the lock that a documented program takes around its two transactions. */
  readonly lock: string;
  /** hash: token of a documented program -> its score SPACE ms when it ends. */
  readonly others: string;
  /** In the order of the script. */
  readonly all: readonly string[];
}

/** The keys of the semaphore `name`. */
export function semaphoreKeys(prefix: string, name: string): SemaphoreKeys {
  const head = headOf(prefix);
  const times = `${head}${name}`;
  const [owner, counter, leases, queue, waiters, limit, others] = PARTS.map(
    (part) => `${times}:${part}`,
  ) as [string, string, string, string, string, string, string];
  const lock = `${head}lock:${name}`;
  const all = [times, owner, counter, leases, queue, waiters, limit, lock, others];
  return { times, owner, counter, leases, queue, waiters, limit, lock, others, all };
}
