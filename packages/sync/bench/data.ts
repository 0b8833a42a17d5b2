/** The data sets of the bench. A Lua script fills a server within seconds. */
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { RedisServer } from "@ropeway/testkit";

/** A data set and the script that creates it. */
export interface DataSet {
  readonly id: string;
  readonly title: string;
  readonly keys: number;
  /** A Lua script that fills the keys from ARGV[1] (inclusive) to ARGV[2] (exclusive). */
  readonly fill: string;
}

/** Mostly strings, with some small collections, as in caches and session stores. */
export function smallKeys(keys: number): DataSet {
  return {
    id: "small",
    title: `${keys} small keys`,
    keys,
    fill: `for n = ARGV[1], ARGV[2] - 1 do
  local kind = n % 11
  if kind < 7 then redis.call('SET', 'user:' .. n, 'value-' .. n * 7919)
  elseif kind < 9 then redis.call('HSET', 'hash:' .. n, 'name', 'n' .. n, 'age', n % 90, 'city', 'c' .. n % 999)
  elseif kind == 9 then redis.call('SADD', 'set:' .. n, n, n + 1, 'm' .. n)
  else redis.call('ZADD', 'zset:' .. n, n, 'a' .. n, n * 2, 'b' .. n) end
end`,
  };
}

/** Values of 1 KB that LZF cannot compress. */
export function kilobyteValues(keys: number): DataSet {
  return {
    id: "1k",
    title: `${keys} values of 1 KB`,
    keys,
    fill: `for n = ARGV[1], ARGV[2] - 1 do
  local parts = {}
  for i = 1, 25 do parts[i] = redis.sha1hex(n .. ':' .. i) end
  redis.call('SET', 'doc:' .. n, table.concat(parts))
end`,
  };
}

/** Hashes of 20 fields. */
export function hashes(keys: number): DataSet {
  return {
    id: "hashes",
    title: `${keys} hashes of 20 fields`,
    keys,
    fill: `for n = ARGV[1], ARGV[2] - 1 do
  local words = {}
  for i = 1, 20 do words[2 * i - 1] = 'f' .. i; words[2 * i] = 'v' .. n * i end
  redis.call('HSET', 'hash:' .. n, unpack(words))
end`,
  };
}

/** One sorted set. */
export function bigZset(members: number): DataSet {
  return {
    id: "zset",
    title: `one sorted set of ${members} members`,
    keys: 1,
    fill: `for n = ARGV[1] * 1, ARGV[2] - 1 do redis.call('ZADD', 'big', n, 'member:' .. n) end`,
  };
}

const STEP = 20_000;

/** Fills an empty server. `units` is the number of keys or members. */
export async function fill(server: RedisServer, { fill }: DataSet, units: number): Promise<void> {
  for (let at = 0; at < units; at += STEP) {
    await server.command("EVAL", fill, "0", String(at), String(Math.min(units, at + STEP)));
  }
}

/** The hashes as a file for redis-cli --pipe, one command per field. */
export async function writeCommands(file: string, keys: number): Promise<void> {
  const stream = createWriteStream(file);
  for (let n = 0; n < keys; n++) {
    let text = "";
    for (let i = 1; i <= 20; i++) {
      const words = ["HSET", `hash:${n}`, `f${i}`, `v${n * i}`];
      text += `*4\r\n${words.map((word) => `$${word.length}\r\n${word}\r\n`).join("")}`;
    }
    if (!stream.write(text)) await once(stream, "drain");
  }
  stream.end();
  await once(stream, "finish");
}
