import { readFileSync } from "node:fs";
import { join } from "node:path";
import { otherServer, type RedisServer, startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { keySlot } from "../../src/command/slot.ts";
import type { TargetServer } from "../../src/command/target.ts";
import { dumpPayload, footerVersion, readDump } from "../../src/dump/payload.ts";
import { NotExpressibleError } from "../../src/errors.ts";
import type { RdbKey } from "../../src/rdb/entry.ts";
import { RdbReader } from "../../src/rdb/reader.ts";
import { BigKey, temporaryKey } from "../../src/value/big-key.ts";
import { commandsOf, ValueCommands } from "../../src/value/commands.ts";
import { decodeValue } from "../../src/value/decode.ts";
import { digestOf } from "../../src/value/digest.ts";
import { FAR, fill } from "../data-set.ts";
import { PlainRedis } from "../plain-redis.ts";

const servers = {
  "redis-6.0": { family: "redis", version: [6, 0], rdbVersion: 9 },
  "redis-7.0": { family: "redis", version: [7, 0], rdbVersion: 10 },
  "redis-8.0": { family: "redis", version: [8, 0], rdbVersion: 12 },
  "valkey-8.1": { family: "valkey", version: [8, 1], rdbVersion: 11 },
} as const satisfies Record<string, TargetServer>;
type Version = keyof typeof servers;
const versions = Object.keys(servers) as Version[];
const pairs = versions.flatMap((from) => versions.map((to) => [from, to] as const));
const reason = versions.map((version) => otherServer(version).reason).find(Boolean);

describe.skipIf(reason)(`between servers of all versions ${reason ?? ""}`, () => {
  const started = new Map<Version, { server: RedisServer; redis: PlainRedis; keys: RdbKey[] }>();

  beforeAll(async () => {
    for (const version of versions) {
      const server = await startRedis({ version });
      const redis = await PlainRedis.open(server);
      await fill(redis, version);
      await redis.send("SAVE");
      const reader = new RdbReader();
      reader.push(readFileSync(join(server.dir, "dump.rdb")));
      const keys: RdbKey[] = [];
      for (let entry = reader.next(); entry; entry = reader.next()) {
        if (entry.kind === "key" && entry.db === 0) keys.push(entry);
      }
      await redis.send("FLUSHALL");
      started.set(version, { server, redis, keys });
    }
  });

  afterAll(async () => {
    for (const { server, redis } of started.values()) {
      await redis[Symbol.asyncDispose]();
      await server.close();
    }
  });

  const end = (version: Version) => {
    const found = started.get(version);
    if (found === undefined) throw new Error(`${version} is not started`);
    return found;
  };

  test.each(pairs)("a value of %s as commands is the same value in %s", async (from, to) => {
    const { redis } = end(to);
    const target = servers[to];
    for (const entry of end(from).keys) {
      const name = entry.key.toString("latin1");
      const commands = new ValueCommands(entry.key, target);
      if (name.startsWith("hx:") && to !== "redis-8.0") {
        expect(() => [...commandsOf(commands, decodeValue(entry))]).toThrow(NotExpressibleError);
        continue;
      }
      for (const command of commandsOf(
        commands,
        decodeValue(entry, { partElements: 7, partBytes: 9000 }),
      )) {
        await redis.send(...command);
      }
      const copy = readDump((await redis.send("DUMP", entry.key)) as Buffer);
      expect(digestOf(decodeValue(copy)), name).toBe(digestOf(decodeValue(entry)));
      await redis.send("DEL", entry.key);
    }
  });

  test.each(pairs)("RESTORE of %s to %s works where a version is offered", async (from, to) => {
    const { redis } = end(to);
    let restored = 0;
    for (const entry of end(from).keys) {
      const version = footerVersion(entry.family, entry.type, servers[to].rdbVersion);
      if (version === undefined) continue;
      restored++;
      const reply = await redis.reply("RESTORE", "copy", 0, dumpPayload(entry, version), "REPLACE");
      expect(reply, entry.key.toString("latin1")).toBe("OK");
      const copy = readDump((await redis.send("DUMP", "copy")) as Buffer);
      expect(digestOf(decodeValue(copy))).toBe(digestOf(decodeValue(entry)));
    }
    await redis.send("FLUSHALL");
    expect(restored).toBeGreaterThan(15);
  });

  test("fields lose their expiry only if that is allowed", async () => {
    const entry = end("redis-8.0").keys.find(({ key }) => key.toString() === "hx:small");
    const { redis } = end("redis-7.0");
    const commands = new ValueCommands(Buffer.from("h"), servers["redis-7.0"], {
      dropFieldExpiry: true,
    });
    for (const command of commandsOf(commands, decodeValue(entry as RdbKey))) {
      await redis.send(...command);
    }
    expect(await redis.send("HLEN", "h")).toBe(3);
    await redis.send("FLUSHALL");
  });

  test("a big key appears whole, with its expiry, or not at all", async () => {
    const { redis } = end("redis-7.0");
    const target = servers["redis-7.0"];
    await redis.send("SET", "big", "old");
    const options = { target, token: "t", expiresAtMs: FAR };
    const big = new BigKey(Buffer.from("big"), options);
    const send = async (commands: readonly (readonly (string | Buffer | number | bigint)[])[]) => {
      for (const command of commands) await redis.send(...command);
    };
    await send(big.begin());
    await send(big.part({ type: "list", elements: [Buffer.from("a"), Buffer.from("b")] }));
    expect(await redis.send("GET", "big")).toEqual(Buffer.from("old"));
    await send(big.part({ type: "list", elements: [Buffer.from("c")] }));
    await send(big.end());
    expect(await redis.send("LRANGE", "big", 0, -1)).toEqual(
      ["a", "b", "c"].map((e) => Buffer.from(e)),
    );
    expect(await redis.send("PEXPIRETIME", "big")).toBe(FAR);
    expect(await redis.send("DBSIZE")).toBe(1);

    const kept = new BigKey(Buffer.from("big"), { ...options, keep: true });
    await send(kept.begin());
    await send(kept.part({ type: "set", members: [Buffer.from("m")] }));
    await send(kept.end());
    expect(await redis.send("TYPE", "big")).toBe("list");
    expect(await redis.send("DBSIZE")).toBe(1);
    await redis.send("FLUSHALL");
  });
});

test.each(["plain", "{tag}rest", "a}b", "", "{}x", "x{}", "{a", "\0\xff{\xfe}"])(
  "the temporary name of %j is in its slot",
  (name) => {
    const key = Buffer.from(name, "latin1");
    const temporary = temporaryKey(key, "token");
    expect(keySlot(temporary)).toBe(keySlot(key));
    expect(temporary.toString("latin1")).toMatch(/^ropeway:tmp:.*token$/s);
  },
);

test("modules and arrays cannot be written with commands", () => {
  const commands = new ValueCommands(Buffer.from("k"), servers["redis-8.0"]);
  const module = { type: "module", module: "ReJSON-RL", bytes: Buffer.alloc(0) } as const;
  expect(() => commands.of(module)).toThrow(NotExpressibleError);
  const array = { type: "array", indexes: [], values: [], insertIndex: undefined } as const;
  expect(() => commands.of(array)).toThrow(NotExpressibleError);
});
