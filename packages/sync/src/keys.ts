/**
 * Every key that a task writes for itself. All begin with `ropeway:sync:` or `ropeway:tmp:`, so that
 * comparisons and the reverse direction of a two-way synchronisation can leave them out. The keys of a task
 * are in database 0.
 *
 *   ropeway:sync:{TASK}:checkpoint:SHARD   hash    the position of the shard's stream; see checkpoint.ts
 *   ropeway:sync:{TASK}:load:SHARD:LANE    hash    `batch`: the last batch of a loading lane
 *   ropeway:sync:{TASK}:expiries:SHARD     list    expiries that the TTL fence holds back; see ttl-fence.ts
 *   ropeway:sync:{TASK}:moved:SHARD        set     keys of moved slots, to be read again; see moving-slots.ts
 *   ropeway:sync:{TASK}:vanished:SHARD     set     DB:KEY that the target may have expired; see vanished-keys.ts
 *   ropeway:sync:{TASK}:discarded          list    JSON of writes that failed, newest first, bounded
 *   ropeway:sync:{TASK}:bigkeys            list    JSON of values that were written in parts, bounded
 *   ropeway:sync:{TAG}:slot:TASK:SHARD     hash    cluster only: the mark of a slot; see cluster-stream.ts
 *   ropeway:tmp:{TAG}:TOKEN                any     a value under construction, in the slot and database of its key
 */
import { beginsWith } from "./key-filter.ts";
import { TEMPORARY_PREFIX } from "./value/big-key.ts";

/** The prefix of a task's keys. */
export const OWN_PREFIX = "ropeway:sync:";

const TASK_PREFIX = Buffer.from(OWN_PREFIX);
const OWN_PREFIXES = [OWN_PREFIX, TEMPORARY_PREFIX].map((prefix) => Buffer.from(prefix));

/** Whether a key belongs to a task or is a value under construction. */
export function isOwnKey(key: Buffer): boolean {
  if (key[0] !== OWN_FIRST_BYTE) return false;
  return OWN_PREFIXES.some((own) => beginsWith(key, own));
}

/**
 * Whether a key belongs to a task. A value under construction (`ropeway:tmp:`) does not: a task that
 * copies this server to another must copy the parts, because the last command only renames them.
 */
export function isTaskKey(key: Buffer): boolean {
  return key[0] === OWN_FIRST_BYTE && beginsWith(key, TASK_PREFIX);
}

/** The first byte of every such key, for a quick check. */
export const OWN_FIRST_BYTE: number = OWN_PREFIX.charCodeAt(0);

/** Hash. */
export function checkpointKey(task: string, shard: number): string {
  return `${OWN_PREFIX}{${task}}:checkpoint:${shard}`;
}

/** The task whose checkpoint the key is; undefined for other keys. */
export function taskOfCheckpoint(key: Buffer): string | undefined {
  return /^ropeway:sync:\{(.+)\}:checkpoint:\d+$/.exec(key.toString())?.[1];
}

/** Hash. */
export function laneKey(task: string, shard: number, lane: number): string {
  return `${OWN_PREFIX}{${task}}:load:${shard}:${lane}`;
}

/** Hash, on a cluster: the mark of the slot of the tag. */
export function slotMarkKey(task: string, shard: number, tag: string): string {
  return `${OWN_PREFIX}{${tag}}:slot:${task}:${shard}`;
}

/** List. */
export function expiriesKey(task: string, shard: number): string {
  return `${OWN_PREFIX}{${task}}:expiries:${shard}`;
}

/** Set. */
export function movedKey(task: string, shard: number): string {
  return `${OWN_PREFIX}{${task}}:moved:${shard}`;
}

/** Set. */
export function vanishedKey(task: string, shard: number): string {
  return `${OWN_PREFIX}{${task}}:vanished:${shard}`;
}

/** List. */
export function discardedKey(task: string): string {
  return `${OWN_PREFIX}{${task}}:discarded`;
}

/** List. */
export function bigKeysKey(task: string): string {
  return `${OWN_PREFIX}{${task}}:bigkeys`;
}
