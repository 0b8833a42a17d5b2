import { describe, expect, test } from "vitest";
import { RdbInspector } from "../../src/inspect/inspector.ts";
import { JsonLines } from "../../src/inspect/json-lines.ts";
import { PrefixTable } from "../../src/inspect/prefix-table.ts";
import { RdbReader } from "../../src/rdb/reader.ts";
import { bytes, f64, le64, len, listpack, rdb, str } from "../rdb/build.ts";

const CTIME_MS = 1_700_000_000_000;
const HOUR = 3_600_000;

const file = rdb(
  "REDIS0012",
  [250, str("redis-ver"), str("8.0.2"), 250, str("ctime"), str("1700000000")],
  [250, str("lua"), str("return 1"), 245, str("#!lua name=x")],
  [254, 0, 252, le64(CTIME_MS + HOUR / 2), 0, str("user:1"), str("v")],
  [252, le64(CTIME_MS - 5), 0, str("user:2"), str("x".repeat(60))],
  [252, le64(CTIME_MS + 3 * 24 * HOUR), 16, str("cart:1"), str(listpack("f", "v", "g", "w"))],
  [
    5,
    str("board"),
    3,
    str("a"),
    f64(1.5),
    str("b"),
    f64(Number.POSITIVE_INFINITY),
    str("c"),
    f64(-0.5),
  ],
  [254, 3, 2, str("tags:\xff"), len(2), str("m"), str("\xfe")],
);

function inspect(options = {}, readerOptions = {}) {
  const reader = new RdbReader(readerOptions);
  const inspector = new RdbInspector(0, options);
  reader.push(file);
  for (let entry = reader.next(); entry; entry = reader.next()) inspector.add(entry);
  return inspector.summary;
}

describe("an inspector", () => {
  test.each([{}, { maxRawBytes: 1 }])("sums up types, databases and expiry with %j", (options) => {
    const summary = inspect({}, options);
    expect(summary).toMatchObject({
      family: "redis",
      version: 12,
      aux: { "redis-ver": "8.0.2", ctime: "1700000000" },
      expiring: 3,
      functions: 1,
      scripts: 1,
      fileBytes: file.length,
      checksum: "verified",
    });
    expect(summary.total.keys).toBe(5);
    expect(Object.fromEntries(summary.types.map(({ type, keys }) => [type, keys]))).toEqual({
      string: 2,
      hash: 1,
      zset: 1,
      set: 1,
    });
    expect(summary.dbs.map(({ db, keys }) => [db, keys])).toEqual([
      [0, 4],
      [3, 1],
    ]);
    expect(summary.expiry.filter(({ keys }) => keys > 0)).toEqual([
      { within: "never", keys: 2 },
      { within: "expired", keys: 1 },
      { within: "within 1 hour", keys: 1 },
      { within: "within 1 week", keys: 1 },
    ]);
    const sum = summary.types.reduce((total, { bytes }) => total + bytes, 0);
    expect(sum).toBe(summary.total.bytes);
  });

  test("lists the biggest keys and prefixes, largest first, and no more than asked for", () => {
    const { biggest, prefixes, otherPrefixes } = inspect({ top: 2 });
    expect(biggest.map(({ key }) => key)).toEqual(["board", "user:2"]);
    expect(biggest[0]).toMatchObject({ elements: 3, encoding: "zset", db: 0 });
    expect(prefixes.map(({ prefix, keys }) => [prefix, keys])).toEqual([
      ["", 1],
      ["user:", 2],
    ]);
    expect(otherPrefixes.keys).toBe(2);
    expect(inspect({ delimiter: "r:" }).prefixes.map(({ prefix }) => prefix)).toEqual([
      "",
      "user:",
    ]);
    expect(inspect({ top: 0 }).biggest).toEqual([]);
  });

  test("refuses options that are wrong", () => {
    expect(() => inspect({ depth: 0 })).toThrow("depth is 0");
    expect(() => inspect({ tops: 1 })).toThrow("did you mean top?");
  });
});

test("prefixes are bounded, and a large one is never lost", () => {
  const table = new PrefixTable(":", 1, 100);
  for (let i = 0; i < 10_000; i++) {
    table.add(Buffer.from(`p${i}:x`), 1);
    table.add(Buffer.from("large:x"), 10);
  }
  expect(table.top(1)).toEqual([{ prefix: "large:", keys: 10_000, bytes: 100_000 }]);
  const { keys, bytes: total } = table.others(1);
  expect([keys, total]).toEqual([10_000, 10_000]);
});

describe("JSON lines", () => {
  const lines = (options = {}) => {
    const reader = new RdbReader(options);
    const json = new JsonLines();
    let text = "";
    reader.push(file);
    for (let entry = reader.next(); entry; entry = reader.next()) {
      for (const piece of json.pieces(entry)) text += piece;
    }
    return text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  };

  test("have a line per key with its exact value", () => {
    expect(lines().filter(({ kind }) => kind === "key")).toEqual([
      {
        kind: "key",
        db: 0,
        key: "user:1",
        type: "string",
        expiresAt: "2023-11-14T22:43:20.000Z",
        value: "v",
      },
      {
        kind: "key",
        db: 0,
        key: "user:2",
        type: "string",
        expiresAt: "2023-11-14T22:13:19.995Z",
        value: "x".repeat(60),
      },
      {
        kind: "key",
        db: 0,
        key: "cart:1",
        type: "hash",
        expiresAt: "2023-11-17T22:13:20.000Z",
        value: [
          ["f", "v"],
          ["g", "w"],
        ],
      },
      {
        kind: "key",
        db: 0,
        key: "board",
        type: "zset",
        value: [
          ["a", 1.5],
          ["b", "inf"],
          ["c", -0.5],
        ],
      },
      {
        kind: "key",
        db: 3,
        key: { base64: "dGFnczr/" },
        type: "set",
        value: ["m", { base64: "/g==" }],
      },
    ]);
  });

  test("of values in parts differ only in strings, which are base64", () => {
    const whole = lines();
    const parts = lines({ maxRawBytes: 1, partElements: 1 });
    const plain = (value: unknown) =>
      typeof value === "object" && value !== null && "base64" in value
        ? Buffer.from(String(value.base64), "base64").toString()
        : value;
    expect(parts.map((line) => ({ ...line, value: plain(line.value) }))).toEqual(whole);
  });
});

test("base64 of a large string is whole, whatever its parts are", () => {
  const text = "é".repeat(50_000);
  const reader = new RdbReader({ maxRawBytes: 1000, partBytes: 8192 });
  const json = new JsonLines();
  let out = "";
  reader.push(rdb("REDIS0009", 0, str("k"), str(bytes(Buffer.from(text)))));
  for (let entry = reader.next(); entry; entry = reader.next()) {
    for (const piece of json.pieces(entry)) out += piece;
  }
  const { value } = JSON.parse(out) as { value: { base64: string } };
  expect(Buffer.from(value.base64, "base64").toString()).toBe(text);
});
