// Valid inputs of every kind, from a real server and hand-made. The fuzzer breaks them.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { RedisServer } from "@ropeway/testkit";
import { RespWriter } from "../src/resp/writer.ts";
import { fill, keysIn } from "../test/data-set.ts";
import { PlainRedis } from "../test/plain-redis.ts";
import { bytes, f64, le64, len, listpack, rdb, str } from "../test/rdb/build.ts";

export interface Seeds {
  readonly rdb: readonly Buffer[];
  readonly dump: readonly Buffer[];
  readonly aof: readonly Buffer[];
  readonly commands: readonly Buffer[];
  readonly replies: readonly Buffer[];
}

/** Fills the server, collects inputs from it and closes it. */
export async function seedsOf(server: RedisServer): Promise<Seeds> {
  try {
    await using redis = await PlainRedis.open(server);
    await fill(redis, "here");
    // Large values slow down the fuzzer and find no additional faults.
    await redis.send("DEL", "s:large", "s:16383", "s:16384", "l:plain", "l:nodes", "s:zeros");
    await redis.send("SAVE");
    const file = readFileSync(join(server.dir, "dump.rdb"));
    const dump: Buffer[] = [];
    for (const key of await keysIn(redis, 0)) dump.push((await redis.send("DUMP", key)) as Buffer);
    const wire = commands();
    const hand = handMade();
    const aof = [wire, bytes(file, wire), bytes(hand[0] as Buffer, "#TS:1\r\n", wire)];
    return { rdb: [file, ...hand], dump, aof, commands: [wire], replies: [replies()] };
  } finally {
    await server.close();
  }
}

function commands(): Buffer {
  const writer = new RespWriter();
  for (let i = 0; i < 20; i++)
    writer.command(["SET", `key:${i}`, "v".repeat(i * 7), "PX", i * 1000]);
  return Buffer.concat(writer.take());
}

function replies(): Buffer {
  return Buffer.from(
    "+OK\r\n:42\r\n$5\r\nhello\r\n*2\r\n*1\r\n:1\r\n$-1\r\n-ERR x\r\n%1\r\n+a\r\n,1.5\r\n>1\r\n#t\r\n(99999999999999999999\r\n~0\r\n_\r\n",
  );
}

/** Layouts that the test server does not write. */
function handMade(): Buffer[] {
  const id = bytes(Buffer.alloc(7), 9, Buffer.alloc(7), 1);
  const group = [str("g"), 0, 0, 0, 1, id, le64(77), 2, 1, str("c"), le64(5), le64(6), 1, id];
  const producers = [len(100), len(10), 1, str("p"), 1, str("iid"), 9, 1, 1, 0];
  const zipmap = bytes(2, 3, "foo", 3, 0, "bar", 5, "hello", 5, 2, "world", 0, 0, 0xff);
  return [
    rdb(
      "REDIS0001",
      254,
      0,
      3,
      str("k"),
      2,
      str("a"),
      3,
      "1.5",
      str("b"),
      254,
      9,
      str("h"),
      str(zipmap),
    ),
    rdb(
      "VALKEY080",
      243,
      str("job"),
      1,
      0,
      len(100),
      22,
      str("k"),
      1,
      str("f"),
      str("v"),
      le64(-1),
    ),
    rdb("REDIS0012", 24, str("k"), le64(5), 2, 0, str("f"), str("v"), 3, str("g"), str("w")),
    rdb("REDIS0012", 25, str("k"), le64(5), str(listpack("f", "v", "0", "g", "w", "99"))),
    rdb("REDIS0014", 27, str("k"), 0, 0, 9, 1, 0, 0, 0, 0, 0, 1, ...group, 1, id, ...producers),
    rdb("REDIS0014", 28, str("k"), 3, 1, 7, 0, 0, str("a"), 5, 1, le64(-5), 6, 2, f64(0.5)),
    rdb("REDIS0013", 243, 1, [1, 2, 3, 4], 2, 9, 5, str("x"), 0, 0, str("k"), str("v")),
    rdb(
      "REDIS0009",
      7,
      str("m"),
      0x81,
      Buffer.alloc(8, 3),
      1,
      5,
      3,
      [0, 0, 0, 0],
      4,
      f64(1),
      5,
      str("z"),
      0,
    ),
    rdb("REDIS0012", 247, 1, 2, 1, 5, str("aux"), 0, 244, 5, 1, 0, 245, str("#!lua name=x")),
  ];
}
