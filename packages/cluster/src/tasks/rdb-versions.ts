/**
 * Which RDB version each Redis version reads, under /tasks/rdbversion/{redisVersion}/{rdbVersion}. Written
 * once, when a store has none; operators may add and change entries afterwards.
 */
import { keys } from "../keys.ts";
import { absent, putRecord } from "../record.ts";
import type { Store } from "../store/store.ts";

const VERSIONS: readonly (readonly [redis: string, rdb: number])[] = [
  ["2.6", 6],
  ["2.8", 6],
  ["3.0", 6],
  ["3.2", 7],
  ["4.0", 8],
  ["5.0", 9],
  ["6.0", 9],
  ["6.2", 9],
  ["7.0", 10],
  ["7.2", 11],
  ["7.4", 12],
];

/** Writes the mapping, unless there is one. */
export async function seedRdbVersions(store: Store): Promise<void> {
  const { entries } = await store.range(keys.rdbVersions, { limit: 1 });
  if (entries.length > 0) return;
  const paths = VERSIONS.map(([redis, rdb]) => keys.rdbVersion(redis, rdb));
  await store.txn({
    if: paths.map(absent),
    do: VERSIONS.map(([redis, rdb], index) => {
      const record = { id: index + 1, redis_version: redis, rdb_version: rdb };
      return putRecord(keys.rdbVersion(redis, rdb), record);
    }),
  });
}
