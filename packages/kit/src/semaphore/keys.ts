/**
 * Every key of a semaphore. The first three and the lock are the documented ones, so on Cluster the
 * prefix or the name needs a hash tag.
 */
import { headOf } from "../keyspace.ts";

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
  const [owner, counter, leases, queue, waiters, limit, others] = [
    "owner",
    "counter",
    "leases",
    "queue",
    "waiters",
    "limit",
    "others",
  ].map((part) => `${times}:${part}`) as [string, string, string, string, string, string, string];
  const lock = `${head}lock:${name}`;
  const all = [times, owner, counter, leases, queue, waiters, limit, lock, others];
  return { times, owner, counter, leases, queue, waiters, limit, lock, others, all };
}
