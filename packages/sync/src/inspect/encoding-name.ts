/** Readable names of type ids. */
import type { RdbFamily } from "../rdb/entry.ts";

const NAMES: readonly string[] = [
  "string",
  "list",
  "set",
  "zset (ASCII scores)",
  "hash",
  "zset",
  "module (before 4.0)",
  "module",
  "",
  "hash (zipmap)",
  "list (ziplist)",
  "set (intset)",
  "zset (ziplist)",
  "hash (ziplist)",
  "list (quicklist of ziplists)",
  "stream (v1)",
  "hash (listpack)",
  "zset (listpack)",
  "list (quicklist)",
  "stream (v2)",
  "set (listpack)",
  "stream (v3)",
];

const REDIS: readonly string[] = [
  "hash (field expiry, 7.4 RC)",
  "hash (listpack, field expiry, 7.4 RC)",
  "hash (field expiry)",
  "hash (listpack, field expiry)",
  "stream (v4)",
  "stream (v5)",
  "array",
];

/** A short description, such as `hash (listpack)`. */
export function encodingName(family: RdbFamily, type: number): string {
  const own = family === "valkey" ? ["hash (field expiry)"] : REDIS;
  return NAMES[type] ?? own[type - NAMES.length] ?? `type ${type}`;
}
