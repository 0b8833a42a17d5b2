import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type OtherVersion, otherServer, type RedisServer, startRedis } from "@ropeway/testkit";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dumpPayload, readDump } from "../../src/dump/payload.ts";
import { RdbReader } from "../../src/rdb/reader.ts";
import { decodeValue } from "../../src/value/decode.ts";
import { digestOf } from "../../src/value/digest.ts";
import { askModel } from "../ask-model.ts";
import { fill, keysIn } from "../data-set.ts";
import { modelOf, readModel } from "../model.ts";
import { PlainRedis } from "../plain-redis.ts";

const versions: (OtherVersion | "redis-here")[] = [
  "redis-here",
  "redis-6.0",
  "redis-7.0",
  "redis-8.0",
  "valkey-8.1",
];

describe.each(versions)("an RDB of %s", (version) => {
  const reason = version === "redis-here" ? undefined : otherServer(version).reason;
  describe.skipIf(reason)(reason ?? "", () => {
    let server: RedisServer;
    let redis: PlainRedis;
    let rdb: Buffer;

    const save = async () => {
      await redis.send("SAVE");
      return readFileSync(join(server.dir, "dump.rdb"));
    };

    beforeAll(async () => {
      const options = version === "redis-here" ? {} : { version: version as "redis-6.0" };
      server = await startRedis(options);
      redis = await PlainRedis.open(server);
      await fill(redis, version);
      rdb = await save();
    });

    afterAll(async () => {
      await redis[Symbol.asyncDispose]();
      await server.close();
    });

    test("has every key with the value that the server reports", async () => {
      const { keys, entries } = readModel(rdb);
      let compared = 0;
      for (const db of [0, 3]) {
        for (const key of await keysIn(redis, db)) {
          const found = keys.get(`${db}:${key.toString("latin1")}`);
          expect(found?.value, key.toString("latin1")).toEqual(await askModel(redis, key));
          const ttl = Number(await redis.send("PTTL", key));
          if (ttl < 0) expect(found?.expiresAtMs).toBe(-1);
          else expect(Math.abs((found?.expiresAtMs ?? 0) - ttl - Date.now())).toBeLessThan(60_000);
          compared++;
        }
      }
      await redis.send("SELECT", 0);
      expect(compared).toBe(keys.size);
      expect(entries.at(0)).toMatchObject({ kind: "header", family: "redis" });
      expect(entries.at(-1)).toEqual({ kind: "eof", checksum: "verified", bytes: rdb.length });
    });

    test.each([1, 2, 7, 64, 1000, 4096, 65_536])(
      "reads the same in chunks of %i bytes",
      (chunk) => {
        const whole = readModel(rdb);
        const cut = readModel(rdb, { chunk });
        expect(cut.keys).toEqual(whole.keys);
        expect(cut.entries).toEqual(whole.entries);
      },
    );

    test.each([1, 13, 4096, 1 << 20])(
      "reads the same if every value comes in parts, in chunks of %i bytes",
      (chunk) => {
        const whole = readModel(rdb);
        const options = { maxRawBytes: 1, partElements: 3, partBytes: 8192, chunk };
        const cut = readModel(rdb, options);
        expect(cut.keys).toEqual(whole.keys);
        expect(cut.cut).toBeGreaterThan(30);
      },
    );

    test("gives slices that the server restores to the same value, and DUMP gives the same bytes", async () => {
      const reader = new RdbReader();
      reader.push(rdb);
      let db = 0;
      for (let entry = reader.next(); entry !== undefined; entry = reader.next()) {
        if (entry.kind !== "key") continue;
        if (entry.db !== db) await redis.send("SELECT", entry.db);
        db = entry.db;
        const before = digestOf(decodeValue(entry));
        const dumped = readDump((await redis.send("DUMP", entry.key)) as Buffer);
        expect(digestOf(decodeValue(dumped))).toBe(before);
        const reply = await redis.reply("RESTORE", "copy", 0, dumpPayload(entry), "REPLACE");
        expect(reply, entry.key.toString("latin1")).toBe("OK");
        const copy = readDump((await redis.send("DUMP", "copy")) as Buffer);
        expect(digestOf(decodeValue(copy))).toBe(before);
        await redis.send("DEL", "copy");
      }
      await redis.send("SELECT", 0);
    });

    test("is decoded to what was written, whatever that was", { timeout: 60_000 }, async () => {
      const bytes = fc.oneof(
        fc.uint8Array({ maxLength: 100 }).map((b) => Buffer.from(b)),
        fc.integer().map((n) => Buffer.from(String(n))),
        fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map((n) => Buffer.from(String(n))),
        fc.tuple(fc.string(), fc.nat(300)).map(([s, n]) => Buffer.from(s.repeat(n))),
        fc.constantFrom(
          ...[62, 63, 64, 65, 127, 128, 4095, 4096, 16_380].map((n) => Buffer.alloc(n, "q")),
        ),
      );
      const list = fc.array(bytes, { minLength: 1, maxLength: 200 });
      const value = fc.record({
        string: bytes,
        list,
        scores: fc.array(fc.double({ noNaN: true }), { minLength: 1 }),
      });
      await fc.assert(
        fc.asyncProperty(value, async ({ string, list, scores }) => {
          await redis.send("FLUSHALL");
          await redis.send("SET", "s", string);
          await redis.send("RPUSH", "l", ...list);
          await redis.send("SADD", "set", ...list);
          await redis.send("HSET", "h", ...list.flatMap((item) => [item, string]));
          const members = list
            .slice(0, scores.length)
            .flatMap((m, i) => [scoreText(scores[i] as number), m]);
          await redis.send("ZADD", "z", ...members);
          const file = await save();
          const { keys } = readModel(file);
          const parts = readModel(file, { maxRawBytes: 1, partElements: 7, chunk: 11 });
          expect(parts.keys).toEqual(keys);
          for (const name of ["s", "l", "set", "h", "z"]) {
            expect(keys.get(`0:${name}`)?.value).toEqual(await askModel(redis, Buffer.from(name)));
          }
          expect(keys.get("0:l")?.value).toEqual(list.map((item) => item.toString("latin1")));
        }),
        { numRuns: 25 },
      );
    });
  });
});

function scoreText(score: number): string {
  return String(score).replace("Infinity", "inf");
}

test("modelOf fails on parts of different types", () => {
  const parts = [
    { type: "list", elements: [] },
    { type: "set", members: [] },
  ] as const;
  expect(() => modelOf(parts)).toThrow("unexpected part");
});
