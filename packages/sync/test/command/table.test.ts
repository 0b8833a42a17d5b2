import { type OtherVersion, otherServer, type RedisServer, startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { matchesGlob } from "../../src/command/glob.ts";
import { keysOf } from "../../src/command/keys.ts";
import { pickKeys, renameKeys } from "../../src/command/pick.ts";
import { keySlot, splitBySlot } from "../../src/command/slot.ts";
import { commandTable, isWrite, specOf } from "../../src/command/table.ts";
import { ErrorReply, type Reply } from "../../src/resp/reply-reader.ts";
import { PlainRedis } from "../plain-redis.ts";

const argvOf = (line: string) => line.split(" ").map((word) => Buffer.from(word));
const lineOf = (argv: readonly Buffer[]) => argv.join(" ");

const lines = [
  "SET k v",
  "mset a 1 b 2 c 3",
  "DEL a b c",
  "BITOP AND d a b",
  "EVAL script 2 a b arg",
  "EVALSHA sha 0 arg",
  "ZUNIONSTORE d 2 a b WEIGHTS 1 2",
  "ZDIFFSTORE d 1 a",
  "LMPOP 2 a b LEFT",
  "BLMPOP 0 2 a b LEFT COUNT 3",
  "BZMPOP 0 1 a MIN",
  "BLPOP a b 0",
  "RENAME a b",
  "SMOVE a b m",
  "SORT a BY w_* STORE d",
  "SORT a",
  "GEORADIUS a 1 2 3 km STORE d",
  "GEORADIUSBYMEMBER a m 3 km STOREDIST d",
  "GEOSEARCHSTORE d a FROMMEMBER m BYRADIUS 3 km",
  "XREADGROUP GROUP g c COUNT 1 STREAMS a b > >",
  "XGROUP CREATE k g $",
  "XCLAIM k g c 0 1-1",
  "PFMERGE d a b",
  "SUNIONSTORE d a b",
  "COPY a b REPLACE",
  "RESTORE k 0 payload REPLACE",
  "MIGRATE host 1 k 0 10",
  "FCALL f 1 k arg",
];

const versions: OtherVersion[] = ["redis-7.0", "redis-8.0", "valkey-8.1"];
describe.each(versions)("%s agrees", (version) => {
  const { reason } = otherServer(version);
  describe.skipIf(reason)(reason ?? "", () => {
    let server: RedisServer;
    let redis: PlainRedis;

    beforeAll(async () => {
      server = await startRedis({ version: version as "redis-7.0" });
      redis = await PlainRedis.open(server);
    });
    afterAll(async () => {
      await redis[Symbol.asyncDispose]();
      await server.close();
    });

    test.each(lines)("where the keys of %s are", async (line) => {
      const argv = argvOf(line);
      const reply = await redis.reply("COMMAND", "GETKEYS", ...argv);
      const keys = reply instanceof ErrorReply ? [] : (reply as Buffer[]).map(String);
      expect(
        keysOf(argv)
          ?.map((at) => String(argv[at]))
          .sort(),
      ).toEqual(keys.sort());
    });

    test("on which commands write, and that a write is never unknown", async () => {
      const writes: string[] = [];
      for (const command of (await redis.send("COMMAND")) as Reply[][]) {
        const [name, , flags] = command as [Buffer, number, Reply[]];
        if (flags.map(String).includes("write")) writes.push(String(name).toLowerCase());
      }
      expect(writes.length).toBeGreaterThan(80);
      expect(writes.filter((name) => !isWrite([Buffer.from(name)]))).toEqual([]);
    });
  });
});

describe("keys", () => {
  test.each([
    ["a number of keys that is too large", "EVAL s 5 a b"],
    ["no number of keys", "EVAL s x a"],
    ["a missing key", "SET"],
    ["streams without ids", "XREADGROUP GROUP g c STREAMS a"],
    ["a command of a module", "JSON.SET k $ 1"],
  ])("are not known with %s", (_, line) => {
    expect(keysOf(argvOf(line))).toBeUndefined();
    expect(splitBySlot(argvOf(line))).toBeUndefined();
  });

  test("of MSETEX and MIGRATE with KEYS are found", () => {
    expect(keysOf(argvOf("MSETEX 2 a 1 b 2 PX 5"))).toEqual([2, 4]);
    const migrate = [...argvOf("MIGRATE h 1"), Buffer.alloc(0), ...argvOf("0 10 KEYS a b")];
    expect(keysOf(migrate)).toEqual([7, 8]);
  });

  test("names in any case, and names of objects, are looked up", () => {
    expect(specOf(argvOf("hSeT k f v"))?.name).toBe("hset");
    expect(specOf(argvOf("constructor"))).toBeUndefined();
    expect(specOf([])).toBeUndefined();
    expect([...commandTable.keys()].every((name) => name === name.toLowerCase())).toBe(true);
  });
});

describe("slots", () => {
  test("are those of the documentation, tags included", () => {
    expect(keySlot(Buffer.from("123456789"))).toBe(0x31c3 % 16_384);
    expect(keySlot(Buffer.from("{user1000}.following"))).toBe(keySlot(Buffer.from("user1000")));
    expect(keySlot(Buffer.from("foo{}{bar}"))).not.toBe(keySlot(Buffer.from("bar")));
    expect(keySlot(Buffer.from("foo{{bar}}zap"))).toBe(keySlot(Buffer.from("{bar")));
    expect(keySlot(Buffer.from("xx{a}yy"), 2, 5)).toBe(keySlot(Buffer.from("a")));
  });

  test("a command of one slot stays whole, others are divided or refused", () => {
    const whole = argvOf("RENAME {a}1 {a}2");
    expect(splitBySlot(whole)).toEqual([{ slot: keySlot(Buffer.from("a")), argv: whole }]);
    const split = splitBySlot(argvOf("MSET {a}1 x {b}1 y {a}2 z"))?.map(({ argv }) => lineOf(argv));
    expect(split).toEqual(["MSET {a}1 x {a}2 z", "MSET {b}1 y"]);
    expect(splitBySlot(argvOf("DEL {a}1 {b}1"))).toHaveLength(2);
    for (const line of ["RENAME {a}1 {b}1", "MSETNX {a}1 x {b}1 y", "SUNIONSTORE {a}d {b}1"]) {
      expect(splitBySlot(argvOf(line))).toBeUndefined();
    }
    expect(splitBySlot(argvOf("FLUSHALL"))).toEqual([
      { slot: undefined, argv: argvOf("FLUSHALL") },
    ]);
  });
});

describe("filters and renames", () => {
  const accepts = (key: Buffer) => key.toString().startsWith("a");

  test("keep the accepted keys of a command", () => {
    expect(pickKeys(argvOf("DEL a1 b1 a2"), accepts)).toEqual(argvOf("DEL a1 a2"));
    expect(pickKeys(argvOf("MSET a1 x b1 y"), accepts)).toEqual(argvOf("MSET a1 x"));
    expect(pickKeys(argvOf("SET b v"), accepts)).toBeUndefined();
    expect(pickKeys(argvOf("RENAME a b"), accepts)).toBe("mixed");
    expect(pickKeys(argvOf("JSON.SET a $ 1"), accepts)).toBe("unknown");
  });

  test("rename every key and nothing else", () => {
    const rename = (key: Buffer) => Buffer.from(`new:${key}`);
    expect(lineOf(renameKeys(argvOf("BITOP AND d a b"), rename) ?? [])).toBe(
      "BITOP AND new:d new:a new:b",
    );
    expect(lineOf(renameKeys(argvOf("SORT a BY a_* STORE d"), rename) ?? [])).toBe(
      "SORT new:a BY a_* STORE new:d",
    );
    expect(renameKeys(argvOf("UNKNOWN a"), rename)).toBeUndefined();
  });
});

test.each([
  ["*", "anything", true],
  ["user:*", "user:1", true],
  ["user:*", "users", false],
  ["h?llo", "hello", true],
  ["h[ae]llo", "hallo", true],
  ["h[^e]llo", "hello", false],
  ["h[a-c]llo", "hbllo", true],
  ["h[c-a]llo", "hbllo", true],
  ["a\\*b", "a*b", true],
  ["a\\*b", "axb", false],
  ["[\\]]", "]", true],
  ["[ab", "b", true],
  ["*a*b*c", "xxaxxbxxc", true],
  ["*a*b*c", "xxaxxbxx", false],
  ["", "", true],
  ["", "a", false],
  [`${"*a".repeat(20)}*b`, "a".repeat(3000), false],
])("the glob %s and the key %s", (glob, key, expected) => {
  expect(matchesGlob(Buffer.from(glob), Buffer.from(key))).toBe(expected);
});
