import { expect, test } from "vitest";
import { dumpPayload } from "../../src/dump/payload.ts";
import { KeyWriter, type LoadNote, noteOf } from "../../src/load/key-writer.ts";
import { RdbKey } from "../../src/rdb/entry.ts";
import type { Abilities } from "../../src/sink/abilities.ts";
import { Transaction } from "../../src/sink/transaction.ts";

const ABILITIES: Abilities = {
  ...{ family: "redis", version: [7, 0], rdbVersion: 10, databases: 16 },
  ...{ restoreReplace: true, restoreAbsTtl: true, setPxAt: true, mset: true },
  ...{ unlink: true, pExpireTime: true, functions: true },
};

const FAR_MS = 4_102_444_800_000;
const HASH = 4;
/** A hash of one field as in a snapshot. */
const RAW_HASH = Buffer.from([1, 4, ...Buffer.from("name"), 3, ...Buffer.from("Ada")]);

function keyOf(name: string, type: number, raw: Buffer): RdbKey {
  const valueType = type === HASH ? "hash" : "string";
  const key = new RdbKey({ db: 0, type, family: "redis", valueType, offset: 0 });
  const bytes = Buffer.concat([Buffer.from(name), raw]);
  return Object.assign(key, {
    ...{ keyBytes: bytes, keyStart: 0, keyEnd: Buffer.byteLength(name) },
    ...{ bytes, rawStart: Buffer.byteLength(name), rawEnd: bytes.length },
  });
}

function writerWith(abilities: Partial<Abilities> = {}): KeyWriter {
  return new KeyWriter({
    ...{ existing: "replace", path: "auto", ttlShiftMs: 0, token: "t" },
    abilities: { ...ABILITIES, ...abilities },
  });
}

/** The commands that copy the key, without the SELECT that ends a transaction. */
function copied(
  writer: KeyWriter,
  key: RdbKey,
  { expiresAtMs = -1, renamed }: { expiresAtMs?: number; renamed?: Buffer } = {},
) {
  const transaction = new Transaction<LoadNote>();
  transaction.select(3);
  const path = writer.pathOf(key);
  expect(writer.copy(key, { renamed, expiresAtMs, path }, transaction)).toBe(true);
  const all = transaction.sent(new Set(Array.from({ length: transaction.commands }, (_, n) => n)));
  return [...all.values()].filter(({ argv }) => String(argv[0]) !== "SELECT");
}

const words = (argv: readonly Buffer[] | undefined) => argv?.map(String);

test("a string is copied with MSET, or with SET and its expiry", () => {
  const key = keyOf("user:1", 0, Buffer.from("\x03Ada"));
  expect(words(copied(writerWith(), key)[0]?.argv)).toEqual(["MSET", "user:1", "Ada"]);
  const expected = ["SET", "user:1", "Ada", "PXAT", "4102444800000"];
  expect(words(copied(writerWith(), key, { expiresAtMs: FAR_MS })[0]?.argv)).toEqual(expected);
  const alone = copied(writerWith({ mset: false }), key, { renamed: Buffer.from("new:1") });
  expect(words(alone[0]?.argv)).toEqual(["SET", "new:1", "Ada"]);
});

test("an integer and a compressed string are copied decoded", () => {
  const integer = keyOf("n", 0, Buffer.from([0xc1, 0x39, 0x30]));
  expect(words(copied(writerWith(), integer)[0]?.argv)).toEqual(["MSET", "n", "12345"]);
  // LZF: one literal "a", then a reference of 8 bytes to it.
  const lzf = keyOf("z", 0, Buffer.from([0xc3, 5, 10, 0x00, 0x61, 0xe0, 0x00, 0x00]));
  expect(words(copied(writerWith(), lzf)[0]?.argv)).toEqual(["MSET", "z", "a".repeat(10)]);
});

test("a string that is too long for MSET is written alone", () => {
  const raw = Buffer.concat([Buffer.from([0x80, 0, 0, 0x80, 0]), Buffer.alloc(32_768, "x")]);
  const [command] = copied(writerWith(), keyOf("long", 0, raw));
  expect(words(command?.argv)).toEqual(["SET", "long", "x".repeat(32_768)]);
});

test("another value is copied with RESTORE, under its new name and with its expiry", () => {
  const key = keyOf("hash:1", HASH, RAW_HASH);
  const payload = dumpPayload({ family: "redis", type: HASH, raw: RAW_HASH }, 6);
  const [forever] = copied(writerWith(), key);
  expect(forever?.db).toBe(3);
  expect(forever?.argv).toEqual(
    ["RESTORE", "hash:1", "0", payload, "REPLACE"].map((word) => Buffer.from(word)),
  );
  const [until] = copied(writerWith(), key, { expiresAtMs: FAR_MS, renamed: Buffer.from("new:1") });
  expect(until?.argv).toEqual(
    ["RESTORE", "new:1", "4102444800000", payload, "REPLACE", "ABSTTL"].map((word) =>
      Buffer.from(word),
    ),
  );
});

test("a RESTORE that the target refuses is read back and built with commands", () => {
  const writer = writerWith();
  const [sent] = copied(writer, keyOf("hash:1", HASH, RAW_HASH), { expiresAtMs: FAR_MS });
  const note = noteOf(sent as NonNullable<typeof sent>);
  expect(note).toMatchObject({ db: 3, expiresAtMs: FAR_MS, path: "restore" });
  expect(String(note.key)).toBe("hash:1");
  const again = new Transaction<LoadNote>();
  writer.build(note.source as NonNullable<LoadNote["source"]>, note, again);
  const all = again.sent(new Set([0, 1, 2]));
  expect([...all.values()].map(({ argv }) => words(argv))).toEqual([
    ["UNLINK", "hash:1"],
    ["HSET", "hash:1", "name", "Ada"],
    ["PEXPIREAT", "hash:1", "4102444800000"],
  ]);
});

test("a SET that the target refuses is read back", () => {
  const key = keyOf("user:1", 0, Buffer.from("\x03Ada"));
  const [sent] = copied(writerWith(), key, { expiresAtMs: FAR_MS });
  const note = noteOf(sent as NonNullable<typeof sent>);
  expect(note).toMatchObject({ source: undefined, db: 3, expiresAtMs: FAR_MS });
  expect(note.path).toBe("set");
});

test("a key that needs its note is not copied", () => {
  const transaction = new Transaction<LoadNote>();
  const place = { renamed: undefined, expiresAtMs: -1 };
  const hash = keyOf("hash:1", HASH, RAW_HASH);
  expect(writerWith().copy(hash, { ...place, path: "type" }, transaction)).toBe(false);
  const old = writerWith({ restoreAbsTtl: false });
  expect(old.copy(hash, { ...place, path: "restore" }, transaction)).toBe(false);
  hash.idleS = 5;
  expect(writerWith().copy(hash, { ...place, path: "restore" }, transaction)).toBe(false);
  expect(transaction.empty).toBe(true);
});
