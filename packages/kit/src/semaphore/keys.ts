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
  /** string: counts acquisitions. Expires a day after the last one of ours. */
  readonly counter: string;
  /** zset: token -> ms when it ends; only tokens of ours. */
  readonly leases: string;
  /** zset: token -> place. Only while somebody waits. */
  readonly queue: string;
  /** hash: token -> "ms when the place ends" SPACE list to wake. */
  readonly waiters: string;
  /** string: the limit that resize() set for all processes. */
  readonly limit: string;
  /** string: the lock that a documented program takes around its two transactions. */
  readonly lock: string;
  /** In the order of the script. */
  readonly all: readonly string[];
}

/** The keys of the semaphore `name`. */
export function semaphoreKeys(prefix: string, name: string): SemaphoreKeys {
  const head = headOf(prefix);
  const times = `${head}${name}`;
  const [owner, counter, leases, queue, waiters, limit] = [
    "owner",
    "counter",
    "leases",
    "queue",
    "waiters",
    "limit",
  ].map((part) => `${times}:${part}`) as [string, string, string, string, string, string];
  const lock = `${head}lock:${name}`;
  const all = [times, owner, counter, leases, queue, waiters, limit, lock];
  return { times, owner, counter, leases, queue, waiters, limit, lock, all };
}
