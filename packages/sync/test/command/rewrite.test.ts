import { otherServer, startRedis } from "@ropeway/testkit";
import { describe, expect, test } from "vitest";
import { rewriteFor } from "../../src/command/rewrite.ts";
import { supports, type TargetServer } from "../../src/command/target.ts";
import { PlainRedis } from "../plain-redis.ts";

const redis = (major: number, minor: number): TargetServer => ({
  family: "redis",
  version: [major, minor],
  rdbVersion: 6,
});
const argvOf = (line: string) => line.split(" ").map((word) => Buffer.from(word));
const rewritten = (target: TargetServer, line: string) =>
  rewriteFor(target, argvOf(line), () => 1000)?.map((argv) => argv.join(" "));

test.each([
  [redis(6, 0), "SET k v PXAT 123", ["SET k v", "PEXPIREAT k 123"]],
  [redis(6, 2), "SET k v PXAT 123", ["SET k v PXAT 123"]],
  [redis(6, 0), "SET k v KEEPTTL", ["SET k v KEEPTTL"]],
  [redis(6, 0), "SET k v", ["SET k v"]],
  [redis(6, 0), "LPOP l 3", ["LTRIM l 3 -1"]],
  [redis(6, 0), "RPOP l 3", ["LTRIM l 0 -4"]],
  [redis(6, 0), "LPOP l", ["LPOP l"]],
  [redis(6, 2), "LPOP l 3", ["LPOP l 3"]],
  [redis(6, 0), "LMOVE a b RIGHT LEFT", ["RPOPLPUSH a b"]],
  [redis(6, 0), "LMOVE a b LEFT LEFT", undefined],
  [redis(3, 2), "UNLINK a b", ["DEL a b"]],
  [redis(4, 0), "UNLINK a b", ["UNLINK a b"]],
  [redis(3, 2), "HSET h a 1 b 2", ["HMSET h a 1 b 2"]],
  [redis(3, 2), "HSET h a 1", ["HSET h a 1"]],
  [
    redis(7, 4),
    "HSETEX h PXAT 9 FIELDS 2 a 1 b 2",
    ["HSET h a 1 b 2", "HPEXPIREAT h 9 FIELDS 2 a b"],
  ],
  [redis(7, 0), "HSETEX h PXAT 9 FIELDS 1 a 1", undefined],
  [redis(7, 0), "HPEXPIREAT h 9 FIELDS 1 a", undefined],
  [redis(8, 0), "HPEXPIREAT h 9 FIELDS 1 a", ["HPEXPIREAT h 9 FIELDS 1 a"]],
  [redis(6, 0), "ZADD z CH GT 1 a", undefined],
  [redis(6, 0), "ZADD z 1 gt", ["ZADD z 1 gt"]],
  [redis(6, 0), "ZADD z NX 1 a", ["ZADD z NX 1 a"]],
  [redis(6, 0), "COPY a b", undefined],
  [redis(6, 0), "XGROUP CREATE k g 0 ENTRIESREAD 5", ["XGROUP CREATE k g 0"]],
  [redis(6, 0), "XGROUP CREATECONSUMER k g c", []],
  [redis(6, 0), "XSETID k 5-5 ENTRIESADDED 9 MAXDELETEDID 1-1", ["XSETID k 5-5"]],
  [redis(4, 0), "XADD k 1-1 a b", undefined],
  [redis(6, 0), "XADD k NOMKSTREAM 1-1 a b", ["XADD k 1-1 a b"]],
  [redis(7, 0), "XADD k NOMKSTREAM 1-1 limit 5", ["XADD k NOMKSTREAM 1-1 limit 5"]],
  [redis(7, 0), "XADD k MAXLEN = 9 LIMIT 5 1-1 LIMIT 5", ["XADD k MAXLEN = 9 1-1 LIMIT 5"]],
  [redis(7, 0), "XADD k MAXLEN ~ 9 LIMIT 5 1-1 a b", ["XADD k MAXLEN ~ 9 LIMIT 5 1-1 a b"]],
  [redis(7, 0), "XADD k MINID 7-0 LIMIT 5 1-1 a b", ["XADD k MINID 7-0 1-1 a b"]],
  [redis(6, 0), "XADD k MINID = 7-0 1-1 a b", undefined],
  [redis(6, 0), "XTRIM k MINID = 7-0", undefined],
  [redis(8, 0), "XTRIM k MAXLEN = 9 LIMIT 5 ACKED", ["XTRIM k MAXLEN = 9 ACKED"]],
  [redis(8, 0), "PEXPIREAT k 123 GT", ["PEXPIREAT k 123"]],
  [redis(6, 0), "PEXPIREAT k 123 XX", ["PEXPIREAT k 123"]],
  [redis(6, 0), "FLUSHALL SYNC", ["FLUSHALL"]],
  [redis(6, 0), "FLUSHALL ASYNC", ["FLUSHALL ASYNC"]],
  [redis(3, 2), "FLUSHDB ASYNC", ["FLUSHDB"]],
  [redis(4, 0), "RESTORE k 5000 p REPLACE ABSTTL FREQ 3", ["RESTORE k 4000 p REPLACE"]],
  [redis(4, 0), "RESTORE k 500 p REPLACE ABSTTL", ["RESTORE k 1 p REPLACE"]],
  [redis(2, 8), "RESTORE k 0 p REPLACE", ["DEL k", "RESTORE k 0 p"]],
  [redis(5, 0), "RESTORE k 5000 p REPLACE ABSTTL", ["RESTORE k 5000 p REPLACE ABSTTL"]],
  [redis(2, 8), "SOME.MODULE k v", ["SOME.MODULE k v"]],
] as const)("%j: %s", (target, line, expected) => {
  expect(rewritten(target, line)).toEqual(expected);
});

test("Valkey has what Redis 7.2 had, and hash field expiry since 9.0", () => {
  const valkey = (major: number, minor: number): TargetServer => ({
    family: "valkey",
    version: [major, minor],
    rdbVersion: 11,
  });
  expect(supports(valkey(8, 1), "functions")).toBe(true);
  expect(supports(valkey(8, 1), "fieldExpiry")).toBe(false);
  expect(supports(valkey(9, 0), "fieldExpiry")).toBe(true);
});

const { reason } = otherServer("redis-6.0");
describe.skipIf(reason)(`on Redis 6.0 ${reason ?? ""}`, () => {
  test("rewritten commands do the same", async () => {
    await using server = await startRedis({ version: "redis-6.0" });
    await using client = await PlainRedis.open(server);
    const apply = async (target: TargetServer, line: string) => {
      for (const argv of rewriteFor(target, argvOf(line), Date.now) ?? [])
        await client.send(...argv);
    };
    await client.send("SET", "k", "old", "PX", 1_000_000);
    await apply(redis(5, 0), "SET k new KEEPTTL");
    expect(String(await client.send("GET", "k"))).toBe("new");
    expect(Number(await client.send("PTTL", "k"))).toBeGreaterThan(900_000);
    await apply(redis(6, 0), "SET k v PXAT 4102444800000");
    expect(Number(await client.send("PTTL", "k"))).toBeGreaterThan(1_000_000);
    await client.send("RPUSH", "l", "a", "b", "c", "d", "e");
    await apply(redis(6, 0), "LPOP l 2");
    await apply(redis(6, 0), "RPOP l 1");
    expect(((await client.send("LRANGE", "l", 0, -1)) as Buffer[]).map(String)).toEqual(["c", "d"]);
    await apply(redis(6, 0), "RPOP l 9");
    expect(await client.send("EXISTS", "l")).toBe(0);
  });
});
