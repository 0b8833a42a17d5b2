import { describe, expect, test } from "vitest";
import {
  RdbChecksumError,
  RdbFormatError,
  RdbTruncatedError,
  UnsupportedRdbError,
} from "../../src/errors.ts";
import { RdbReader } from "../../src/rdb/reader.ts";
import { readModel } from "../model.ts";
import { bytes, f64, le64, len, listpack, rdb, str } from "./build.ts";

const valueIn = (file: Buffer, key = "0:k") => {
  const whole = readModel(file);
  for (const chunk of [1, 3, 10]) {
    expect(readModel(file, { chunk, maxRawBytes: 1, partElements: 1 }).keys).toEqual(whole.keys);
  }
  return whole.keys.get(key)?.value;
};

function thrownBy(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  return undefined;
}

const zipmap = bytes(2, 3, "foo", 3, 0, "bar", 5, "hello", 5, 2, "world", 0, 0, 0xff);
const ziplist = (...entries: Buffer[]) => {
  const body = bytes(...entries);
  const head = Buffer.alloc(10);
  head.writeUInt32LE(11 + body.length);
  head.writeUInt16LE(entries.length, 8);
  return bytes(head, body, 0xff);
};

describe("old versions", () => {
  test("RDB 1 has no checksum, and scores in ASCII", () => {
    const scores = [str("a"), 3, "1.5", str("b"), 254, str("c"), 255, str("d"), 2, "-7"];
    const file = rdb("REDIS0001", 254, 0, 3, str("k"), 4, ...scores);
    expect(valueIn(file)).toEqual({
      zset: [
        ["a", 1.5],
        ["b", Number.POSITIVE_INFINITY],
        ["c", Number.NEGATIVE_INFINITY],
        ["d", -7],
      ],
    });
    expect(readModel(file).entries.at(-1)).toMatchObject({ kind: "eof", checksum: "absent" });
  });

  test("RDB 2 has hashes as zipmaps", () => {
    expect(valueIn(rdb("REDIS0002", 9, str("k"), str(zipmap)))).toEqual({
      hash: [
        ["foo", "bar", 0],
        ["hello", "world", 0],
      ],
    });
  });

  test("a zipmap may have lengths of five bytes", () => {
    const long = "x".repeat(300);
    const map = bytes(1, 254, [44, 1, 0, 0], long, 254, [44, 1, 0, 0], 0, long, 0xff);
    expect(valueIn(rdb("REDIS0002", 9, str("k"), str(map)))).toEqual({ hash: [[long, long, 0]] });
  });

  test("RDB 6 has every width of integer in ziplists, and expiry in seconds", () => {
    const list = ziplist(
      bytes(0, 0xc0, 0x39, 0x30),
      bytes(4, 0xd0, 0xd2, 0x02, 0x96, 0x49),
      bytes(6, 0xe0, le64(-9_223_372_036_854_775_808n)),
      bytes(10, 0xf0, 0xff, 0xff, 0x7f),
      bytes(5, 0xfe, 0x80),
      bytes(3, 0xf1),
      bytes(2, 0xfd),
      bytes(2, 0x05, "hello"),
      bytes(7, 0x40, 0x01, "x"),
      bytes(254, [4, 0, 0, 0], 0x80, [0, 0, 0, 2], "yz"),
    );
    const file = rdb("REDIS0006", 254, 2, 253, [0xff, 0xff, 0xff, 0x7f], 10, str("k"), str(list));
    expect(valueIn(file, "2:k")).toEqual([
      "12345",
      "1234567890",
      "-9223372036854775808",
      "8388607",
      "-128",
      "0",
      "12",
      "hello",
      "x",
      "yz",
    ]);
    expect(readModel(file).keys.get("2:k")?.expiresAtMs).toBe(0x7fff_ffff * 1000);
  });

  test("a ziplist or listpack whose count says 65535 is walked to its end", () => {
    const list = listpack("a", "b", "c");
    list.writeUInt16LE(65_535, 4);
    expect(valueIn(rdb("REDIS0010", 20, str("k"), str(list)))).toEqual({ set: ["a", "b", "c"] });
  });

  test("a collection without elements is dropped, as servers do", () => {
    const reader = new RdbReader();
    reader.push(rdb("REDIS0009", 4, str("k"), 0, 0, str("s"), str("v")));
    const kinds = [];
    for (let entry = reader.next(); entry; entry = reader.next()) kinds.push(entry.kind);
    expect(kinds).toEqual(["header", "key", "eof"]);
    expect(reader.emptyKeys).toBe(1);
  });
});

describe("families", () => {
  const hash22 = [2, str("f"), str("v"), le64(-1), str("g"), str("w"), le64(4_102_444_800_000)];

  test("type 22 of Valkey 9 has the expiry behind each field", () => {
    expect(valueIn(rdb("VALKEY080", 254, 0, 22, str("k"), ...hash22))).toEqual({
      hash: [
        ["f", "v", 0],
        ["g", "w", 4_102_444_800_000],
      ],
    });
  });

  test("type 22 of Redis has it before, absolute; type 24 relative to the earliest", () => {
    const wide = bytes(0x81, Buffer.from("000003bb2cc3d800", "hex"));
    const file = rdb("REDIS0012", 22, str("k"), 2, 0, str("f"), str("v"), wide, str("g"), str("w"));
    const expected = {
      hash: [
        ["f", "v", 0],
        ["g", "w", 4_102_444_800_000],
      ],
    };
    expect(valueIn(file)).toEqual(expected);
    const early = le64(4_102_444_799_900);
    const relative = [2, 0, str("f"), str("v"), len(101), str("g"), str("w")];
    expect(valueIn(rdb("REDIS0012", 24, str("k"), early, ...relative))).toEqual(expected);
  });

  test("types 23 and 25 of Redis are listpacks of triples", () => {
    const triples = listpack("g", "w", "4102444800000", "f", "v", "0");
    const expected = {
      hash: [
        ["f", "v", 0],
        ["g", "w", 4_102_444_800_000],
      ],
    };
    expect(valueIn(rdb("REDIS0012", 23, str("k"), str(triples)))).toEqual(expected);
    const early = le64(4_102_444_800_000);
    expect(valueIn(rdb("REDIS0012", 25, str("k"), early, str(triples)))).toEqual(expected);
  });

  test("opcode 243 is SLOT_IMPORT in Valkey and KEY_META in Redis", () => {
    const valkey = rdb("VALKEY080", 243, str("job"), 2, len(0), len(100), len(200), len(16_383));
    expect(readModel(valkey, { chunk: 1 }).entries[1]).toEqual({
      kind: "slot-import",
      job: Buffer.from("job"),
      ranges: [
        [0, 100],
        [200, 16_383],
      ],
    });
    const meta = bytes(243, 1, [1, 2, 3, 4], 2, 9, 5, str("x"), 0);
    for (const chunk of [1, 1000]) {
      const reader = new RdbReader();
      const file = rdb("REDIS0013", meta, 0, str("k"), str("v"), 0, str("l"), str("w"));
      const metas = [];
      for (let at = 0; at < file.length; at += chunk) {
        reader.push(file.subarray(at, at + chunk));
        for (let entry = reader.next(); entry; entry = reader.next()) {
          if (entry.kind === "key") metas.push(entry.meta);
        }
      }
      expect(metas).toEqual([meta, undefined]);
    }
  });

  test("slots, functions, modules and hints are entries of their own", () => {
    const id = 0x0410_4104_1041_0401n; // BBBBBBBBB version 1, in six-bit letters
    const wide = bytes(0x81, Buffer.from(id.toString(16).padStart(16, "0"), "hex"));
    const file = rdb(
      "REDIS0012",
      [250, str("redis-ver"), str("8.0.2")],
      [247, wide, 2, 1, 1, 5, 3, [0, 0, 0, 0], 4, f64(1.5), 5, str("abc"), 0],
      [245, str("#!lua name=x")],
      [254, 0],
      [251, len(2), len(1)],
      [244, len(5), 1, 0],
      [248, len(1000), 252, le64(1234), 0, str("idle"), str("v")],
      [249, 200, 7, str("mod"), wide, 5, str("data"), 0],
    );
    for (const chunk of [1, 5, 1000]) {
      const { entries, keys } = readModel(file, { chunk });
      expect(entries.map(({ kind }) => kind)).toEqual([
        "header",
        "aux",
        "module-aux",
        "function",
        "select",
        "resize",
        "slot",
        "eof",
      ]);
      expect(entries[2]).toMatchObject({ module: "BBBBBBBBB", when: 1 });
      expect(keys.get("0:idle")?.expiresAtMs).toBe(1234);
      expect(keys.size).toBe(2);
    }
    const reader = new RdbReader();
    reader.push(file);
    const seen = [];
    for (let entry = reader.next(); entry; entry = reader.next()) {
      if (entry.kind === "key") seen.push([entry.idleS, entry.freq, entry.valueType]);
    }
    expect(seen).toEqual([
      [1000, -1, "string"],
      [-1, 200, "module"],
    ]);
  });

  test("streams of Redis 8.6 and 8.8 have producers and released entries", () => {
    const id = (ms: number) => bytes(Buffer.alloc(7), ms, Buffer.alloc(7), 1);
    const group = [str("g"), 0, 0, 0, 1, id(9), le64(77), 2, 0];
    const common = [0, 0, 9, 1, 0, 0, 0, 0, 0, 1];
    const producers = [len(100), len(10), 1, str("p"), 1, str("iid"), 9, 1, 1, 0];
    const v4 = rdb("REDIS0013", 26, str("k"), ...common, ...group, ...producers);
    const v5 = rdb("REDIS0014", 27, str("k"), ...common, ...group, 1, id(9), ...producers);
    const expected = {
      entries: [],
      info: { length: 0, lastId: "9-1" },
      groups: [{ name: "g", lastId: "0-0", pending: [["9-1", 2]], consumers: [] }],
    };
    expect(valueIn(v4)).toEqual(expected);
    expect(valueIn(v5)).toEqual(expected);
  });

  test("arrays of Redis 8.8 have indexed elements", () => {
    const file = rdb("REDIS0014", [
      28,
      str("k"),
      3,
      1,
      7,
      0,
      0,
      str("a"),
      5,
      1,
      le64(-5),
      6,
      2,
      f64(0.5),
    ]);
    expect(readModel(file).keys.get("0:k")?.value).toMatchObject([
      {
        type: "array",
        indexes: [0n, 5n, 6n],
        insertIndex: 7n,
        values: ["a", "-5", "0.5"].map(Buffer.from),
      },
    ]);
    for (const chunk of [1, 4]) {
      expect(readModel(file, { chunk }).keys).toEqual(readModel(file).keys);
    }
  });
});

describe("what cannot be read is refused with its offset", () => {
  const unsupported: [string, Buffer, number, number][] = [
    ["a later version of Redis", rdb("REDIS0016"), 0, 16],
    ["a later version of Valkey", rdb("VALKEY081"), 0, 81],
    ["version 0", rdb("REDIS0000"), 0, 0],
    ["a module of Redis before 4.0", rdb("REDIS0008", 6, str("k"), 0), 9, 6],
    ["an unknown type", rdb("REDIS0012", 0, str("k"), str("v"), 60, str("k"), 0), 14, 60],
    ["hash templates", rdb("REDIS0015", 30, str("k"), 0), 9, 30],
    ["the registry of hash templates", rdb("REDIS0015", 242, 0), 9, 242],
    ["a type of Redis in an RDB of Valkey", rdb("VALKEY080", 24, str("k"), 0), 9, 24],
    ["functions of a release candidate", rdb("REDIS0010", 246, 0), 9, 246],
    ["an opcode of Redis Enterprise", rdb("REDIS0009", 101, 0), 9, 101],
    ["an unknown string encoding", rdb("REDIS0009", 0, str("k"), 0xc4), 12, 0xc4],
  ];
  test.each(unsupported)("%s", (...[, file, offset, id]) => {
    for (const chunk of [1, 1000]) {
      const error = thrownBy(() => readModel(file, { chunk }));
      expect(error).toBeInstanceOf(UnsupportedRdbError);
      expect(error).toMatchObject({ offset, id, code: "RDB_UNSUPPORTED" });
    }
  });

  const malformed: [string, Buffer, number][] = [
    ["no magic", Buffer.from("HELLO0009 and more"), 0],
    ["a version that is no number", Buffer.from("REDIS00x9 and more"), 0],
    ["a length with stray bits", rdb("REDIS0009", 0, 0x82, 1, "v"), 10],
    ["an encoding where a count belongs", rdb("REDIS0009", 1, str("k"), 0xc0), 12],
    ["a listpack of the wrong size", rdb("REDIS0010", 16, str("k"), str("\x09\0\0\0\0\0\xff")), 0],
    ["an intset with a wrong width", rdb("REDIS0010", 11, str("k"), str("\x03\0\0\0\0\0\0\0")), 0],
    [
      "an LZF string that cannot become so long",
      rdb("REDIS0009", 0, str("k"), 0xc3, 4, 0x80, [127, 0, 0, 0], "abcd"),
      12,
    ],
    [
      "an LZF string with a bad reference",
      rdb("REDIS0009", 0, str("k"), 0xc3, 4, 40, [0xe0, 1, 99, 0]),
      0,
    ],
    ["a score that is not a number", rdb("REDIS0009", 3, str("k"), 1, str("m"), 253), 0],
    ["a quicklist node of an unknown kind", rdb("REDIS0010", 18, str("k"), 1, 3, str("x")), 0],
    ["a slot that does not exist", rdb("REDIS0012", 244, len(16_384), 0, 0), 0],
    ["a module opcode that does not exist", rdb("REDIS0009", 7, str("k"), 0, 6, 0), 0],
  ];
  test.each(malformed)("%s", (_, file, offset) => {
    for (const chunk of [1, 1000]) {
      const error = thrownBy(() => readModel(file, { chunk }));
      expect(error).toBeInstanceOf(RdbFormatError);
      if (offset > 0) expect(error).toMatchObject({ offset });
    }
  });

  test("a wrong checksum, unless it is to be ignored or absent", () => {
    const file = rdb("REDIS0009", 0, str("k"), str("v"));
    file[file.length - 1] = (file.at(-1) as number) ^ 1;
    expect(thrownBy(() => readModel(file))).toBeInstanceOf(RdbChecksumError);
    expect(readModel(file, { checksum: false }).entries.at(-1)).toMatchObject({
      checksum: "skipped",
    });
    file.fill(0, file.length - 8);
    expect(readModel(file, { chunk: 1 }).entries.at(-1)).toMatchObject({ checksum: "absent" });
  });

  test("an end at any byte", () => {
    const file = rdb(
      "REDIS0009",
      254,
      0,
      4,
      str("k"),
      1,
      str("f"),
      str("v"),
      0,
      str("l"),
      str("w"),
    );
    for (let length = 0; length < file.length; length++) {
      const error = thrownBy(() => readModel(file.subarray(0, length), { chunk: 4 }));
      expect(error).toBeInstanceOf(RdbTruncatedError);
      expect(error).toMatchObject({ offset: length });
    }
  });
});

test("the bytes after the RDB are given back", () => {
  const file = bytes(rdb("REDIS0009", 0, str("k"), str("v")), "and more");
  const reader = new RdbReader();
  reader.push(file);
  while (reader.next() !== undefined);
  expect(reader.finished).toBe(true);
  expect(reader.takeRest().toString()).toBe("and more");
});

test("options are checked", () => {
  expect(() => new RdbReader({ maxRawBytes: 0 })).toThrow("maxRawBytes is 0");
  expect(() => new RdbReader({ partBytes: 100 })).toThrow("partBytes");
});
