// Every type in every encoding a server has, written with plain commands.
import type { Argument } from "../src/resp/writer.ts";
import type { PlainRedis } from "./plain-redis.ts";

export const FAR = 4_102_444_800_000; // the year 2100

const range = (n: number) => Array.from({ length: n }, (_, i) => i);
/** Bytes that do not compress, the same in every run. */
export function noise(length: number, seed = 1): Buffer {
  let state = seed;
  return Buffer.from(
    range(length).map(() => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return state >>> 24;
    }),
  );
}

function simple(): Argument[][] {
  const strings: [string | Buffer, string | Buffer][] = [
    ["s:empty", ""],
    ["s:text", "hello"],
    ["s:8bit", "-12"],
    ["s:16bit", "12345"],
    ["s:32bit", "-1234567890"],
    ["s:64bit", "9007199254740993"],
    ["s:leading", "007"],
    ["s:lzf", "abc".repeat(500)],
    ["s:zeros", "\0".repeat(100_000)],
    ["s:63", "x".repeat(63)],
    ["s:64", noise(64)],
    ["s:16383", noise(16_383)],
    ["s:16384", noise(16_384)],
    ["s:large", noise(300_000)],
    [noise(40), noise(40)],
    [Buffer.from([0, 255, 13, 10]), Buffer.from([0, 255])],
    [`key:that:compresses:${"x".repeat(200)}`, "v"],
    ["12345", "a key that is an integer"],
  ];
  return strings.map(([key, value]) => ["SET", key, value]);
}

function collections(): Argument[][] {
  const ints = [
    0, 1, 12, 13, 127, 128, -1, -128, 4095, 4096, -4096, 32767, -32768, 8388607, -8388608,
  ];
  const wide = [
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "8388608",
  ];
  const sizes = [0, 1, 5, 62, 63, 64, 65, 4000].map((n) => noise(n, n + 1));
  const mixed: Argument[] = [...ints.map(String), ...wide, ...sizes, "1e3", "00", "abc".repeat(15)];
  const many = range(700).map((i) => `member:${i}`);
  const fields = mixed.flatMap((m, i) => [`f${i}`, m]);
  return [
    ["RPUSH", "l:small", ...mixed],
    ["RPUSH", "l:one", "x"],
    ...range(7).map((part) => ["RPUSH", "l:nodes", ...many.map((m) => `${m}:${part}`)]),
    ["RPUSH", "l:plain", noise(20_000), "small", noise(12_000), "z".repeat(30_000)],
    ["SADD", "set:int16", 1, 2, 3, -5],
    ["SADD", "set:int32", 1, 70_000, -70_000],
    ["SADD", "set:int64", 1, "9223372036854775807", "-9223372036854775808"],
    ["SADD", "set:small", "a", "b", "12"],
    ["SADD", "set:large", ...many],
    ["SADD", "set:long", noise(500), "a"],
    ["HSET", "h:small", "a", "1", "b", "two", "c", ""],
    ["HSET", "h:mixed", ...fields],
    ["HSET", "h:large", ...many.flatMap((m, i) => [m, String(i)])],
    ["HSET", "h:long", "f", noise(5000)],
    ["ZADD", "z:small", 1, "a", -1.5, "b", "inf", "c", "-inf", "d", 0.1, "e", 1e300, "f", "3", "g"],
    ["ZADD", "z:large", ...many.flatMap((m, i) => [i / 7, m])],
    ["ZADD", "z:int", "9007199254740992", "big", "-4503599627370496", "low"],
  ];
}

function streams(): Argument[][] {
  const commands: Argument[][] = [];
  for (const i of range(250)) {
    commands.push([
      "XADD",
      "x:many",
      `${1000 + i}-${i % 3}`,
      "temperature",
      String(i),
      "unit",
      "C",
    ]);
  }
  commands.push(["XADD", "x:many", "5000-0", "other", "fields", "than", "before", "3", noise(80)]);
  commands.push(["XDEL", "x:many", "1005-2", "1100-1", "1249-0"]);
  commands.push(["XGROUP", "CREATE", "x:many", "g1", "0"]);
  commands.push(["XGROUP", "CREATE", "x:many", "g2", "1100-0"]);
  commands.push(["XREADGROUP", "GROUP", "g1", "alice", "COUNT", 20, "STREAMS", "x:many", ">"]);
  commands.push(["XREADGROUP", "GROUP", "g1", "bob", "COUNT", 3, "STREAMS", "x:many", ">"]);
  commands.push(["XREADGROUP", "GROUP", "g2", "carol", "COUNT", 2, "STREAMS", "x:many", ">"]);
  commands.push(["XACK", "x:many", "g1", "1000-0", "1001-1"]);
  commands.push(["XGROUP", "CREATE", "x:empty", "g", "$", "MKSTREAM"]);
  commands.push(["XADD", "x:gone", "7-7", "a", "b"], ["XDEL", "x:gone", "7-7"]);
  commands.push(["XADD", "x:huge", "18446744073709551615-18446744073709551615", "k", "v"]);
  return commands;
}

function expiring(): Argument[][] {
  return [
    ["SET", "e:string", "v"],
    ["PEXPIREAT", "e:string", FAR + 1],
    ["SADD", "e:set", "m"],
    ["PEXPIREAT", "e:set", FAR + 123_456],
    ["SELECT", 3],
    ["SET", "in:db3", "v"],
    ["PEXPIREAT", "in:db3", FAR + 2],
    ["SELECT", 0],
  ];
}

/** Hash fields with expiries, for servers that have them. */
function fieldExpiries(): Argument[][] {
  const many = range(600).flatMap((i) => [`f${i}`, `v${i}`]);
  return [
    ["HSET", "hx:small", "a", "1", "b", "2", "c", "3"],
    ["HPEXPIREAT", "hx:small", FAR + 5, "FIELDS", 1, "a"],
    ["HPEXPIREAT", "hx:small", FAR + 9, "FIELDS", 1, "c"],
    ["HSET", "hx:large", ...many],
    ["HPEXPIREAT", "hx:large", FAR + 77, "FIELDS", 2, "f1", "f500"],
    ["HPEXPIREAT", "hx:large", FAR, "FIELDS", 1, "f3"],
  ];
}

/** Fills an empty server. */
export async function fill(redis: PlainRedis, version: string): Promise<void> {
  const commands = [...simple(), ...collections(), ...streams(), ...expiring()];
  if (version === "redis-8.0") commands.push(...fieldExpiries());
  for (const command of commands) await redis.send(...command);
}

/** Every key of a database. */
export async function keysIn(redis: PlainRedis, db: number): Promise<Buffer[]> {
  await redis.send("SELECT", db);
  return (await redis.send("KEYS", "*")) as Buffer[];
}
