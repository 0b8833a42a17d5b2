import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type RedisServer, startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ElementTooLargeError } from "../../src/errors.ts";
import { RdbReader } from "../../src/rdb/reader.ts";
import { fill } from "../data-set.ts";
import { readModel } from "../model.ts";
import { PlainRedis } from "../plain-redis.ts";
import { bytes, len, rdb, str } from "./build.ts";
import { checkRdb } from "./check-rdb.ts";
import { Dice, mutate, outcomeOf } from "./mutant.ts";

let server: RedisServer;
let file: Buffer;

beforeAll(async () => {
  server = await startRedis();
  await using redis = await PlainRedis.open(server);
  await fill(redis, "here");
  // Large values make mutants slow without making them more interesting.
  await redis.send("DEL", "s:large", "s:16383", "s:16384", "l:plain", "l:nodes", "s:zeros");
  await redis.send("SAVE");
  file = readFileSync(join(server.dir, "dump.rdb"));
});

afterAll(() => server.close());

test("a broken file gives the same result in every chunking: data, or an error of ours", () => {
  for (let seed = 1; seed <= 150; seed++) {
    const broken = mutate(file, new Dice(seed));
    for (const small of [false, true]) {
      const whole = outcomeOf(broken, () => broken.length, small);
      const dice = new Dice(seed);
      const cut = outcomeOf(broken, () => 1 + dice.below(dice.below(2) === 0 ? 5 : 3000), small);
      expect(cut.error, `seed ${seed}`).toBe(whole.error);
      // How much is handed out before an error depends on when the reader looks.
      if (whole.error === undefined) expect(cut, `seed ${seed}`).toEqual(whole);
    }
  }
}, 180_000);

describe("redis-check-rdb agrees", () => {
  const check = async (content: Buffer): Promise<boolean> => {
    const path = join(server.dir, "checked.rdb");
    writeFileSync(path, content);
    const { good, said } = await checkRdb(path);
    expect(said).toMatch(/Checking RDB file/);
    return good;
  };
  const ours = (content: Buffer): boolean => {
    try {
      readModel(content);
      return true;
    } catch {
      return false;
    }
  };

  test("on a good file, on a truncated one, on one with a flipped bit", async () => {
    expect(await check(file)).toBe(true);
    expect(ours(file)).toBe(true);
    const dice = new Dice(7);
    for (let round = 0; round < 12; round++) {
      const at = 10 + dice.below(file.length - 20);
      const flipped = Buffer.from(file);
      flipped[at] = (flipped[at] as number) ^ (1 << dice.below(8));
      for (const broken of [file.subarray(0, at), flipped]) {
        expect({ at, good: ours(broken) }).toEqual({ at, good: await check(broken) });
      }
    }
  });
});

describe("lengths are never trusted", () => {
  const huge = bytes(0x81, Buffer.from("00000000ffffffff", "hex"));
  const claims: [string, Buffer][] = [
    ["a string", bytes("REDIS0009", 0, str("k"), huge, "abc")],
    ["a key", bytes("REDIS0009", 0, huge, "abc")],
    ["a list of elements", bytes("REDIS0009", 1, str("k"), huge, str("a"))],
    ["an element", bytes("REDIS0009", 1, str("k"), 1, huge, "abc")],
    ["a listpack", bytes("REDIS0010", 16, str("k"), huge, "abc")],
    ["a stream", bytes("REDIS0009", 15, str("k"), huge, "abc")],
    [
      "a compressed string",
      bytes("REDIS0009", 0, str("k"), 0xc3, len(60_000_000), len(4_000_000_000), "abc"),
    ],
    ["a function", bytes("REDIS0010", 245, huge, "abc")],
    ["a module", bytes("REDIS0010", 7, str("k"), 0, 5, huge, "abc")],
  ];
  test.each(claims)("%s that claims 4 GB takes no memory", (_, content) => {
    const before = process.memoryUsage().arrayBuffers;
    expect(() => readModel(content, { chunk: 7 })).toThrow();
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(4_000_000);
  });

  test("an element above the bound is refused by name, a string is not", () => {
    const element = rdb("REDIS0009", 1, str("k"), 1, str("x".repeat(5000)));
    expect(() => readModel(element, { maxElementBytes: 4999 })).toThrow(ElementTooLargeError);
    const text = rdb("REDIS0009", 0, str("k"), str("x".repeat(5000)));
    expect(readModel(text, { maxElementBytes: 4999 }).cut).toBe(1);
  });
});

describe("memory stays bounded", () => {
  // Each in a process of its own, because what counts is the resident memory at its highest.
  const peakOf = (name: string): number => {
    const script = join(dirname(fileURLToPath(import.meta.url)), "memory.fixture.ts");
    const args = ["--conditions=@ropeway/source", "--import", "tsx", script, name];
    const run = spawnSync(process.execPath, args, { encoding: "utf8" });
    expect(run.stderr).toBe("");
    return (JSON.parse(run.stdout) as { peakMiB: number }).peakMiB;
  };
  test.each([
    "zset",
    "string",
    "lzf-string",
    "lzf-bomb-list",
    "ziplist-bomb",
    "module",
    "consumers",
  ])("with a %s far larger than memory allows", { timeout: 120_000 }, (name) => {
    expect(peakOf(name)).toBeLessThan(256);
  });
});

test("a reader that failed gives nothing more", () => {
  const reader = new RdbReader();
  reader.push(Buffer.from("not an RDB at all"));
  expect(() => reader.next()).toThrow();
  expect(() => reader.next()).toThrow();
});
