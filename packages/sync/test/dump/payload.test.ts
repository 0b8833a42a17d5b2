import { describe, expect, test } from "vitest";
import {
  dumpPayload,
  footerVersion,
  lowestVersion,
  readDump,
  sealPayload,
} from "../../src/dump/payload.ts";
import { DumpPayloadError } from "../../src/errors.ts";
import { bytes, str } from "../rdb/build.ts";

const foo = { family: "redis", type: 0, raw: str("foo") } as const;

test("a payload has the published bytes", () => {
  expect(dumpPayload(foo, 9).toString("hex")).toBe(
    "0003666f6f0900a3bb6817194 7d926".replace(" ", ""),
  );
  expect(readDump(dumpPayload(foo))).toEqual({ ...foo, version: 6 });
});

test("a payload can be sealed in place", () => {
  const page = Buffer.alloc(40, 1);
  bytes(0, str("foo")).copy(page, 7);
  sealPayload(page, 7, { length: 15, version: 9 });
  expect(page.subarray(7, 22)).toEqual(dumpPayload(foo, 9));
  expect(page[22]).toBe(1);
});

describe("the version", () => {
  test.each([
    ["redis", 0, 6],
    ["redis", 4, 6],
    ["redis", 13, 6],
    ["redis", 14, 7],
    ["redis", 5, 8],
    ["redis", 7, 8],
    ["redis", 15, 9],
    ["redis", 16, 10],
    ["redis", 19, 10],
    ["redis", 20, 11],
    ["redis", 24, 12],
    ["redis", 26, 13],
    ["redis", 28, 14],
    ["valkey", 22, 80],
    ["redis", 22, undefined],
    ["redis", 6, undefined],
    ["redis", 30, undefined],
  ] as const)("of %s type %i is at least %s", (family, type, version) => {
    expect(lowestVersion(family, type)).toBe(version);
  });

  test("is exact for Redis 2.6 to 3.2, and the lowest for all later ones", () => {
    expect(footerVersion("redis", 0, 7)).toBe(7);
    expect(footerVersion("redis", 0, 6)).toBe(6);
    expect(footerVersion("redis", 14, 6)).toBeUndefined();
    expect(footerVersion("redis", 0, 12)).toBe(6);
    expect(footerVersion("redis", 24, 11)).toBeUndefined();
  });

  test("keeps the families apart", () => {
    expect(footerVersion("redis", 24, 80)).toBeUndefined();
    expect(footerVersion("redis", 20, 80)).toBe(11);
    expect(footerVersion("valkey", 22, 12)).toBeUndefined();
    expect(footerVersion("valkey", 22, 80)).toBe(80);
  });
});

describe("reading", () => {
  test("tolerates a checksum that was left out, and key metadata of Redis 8.6", () => {
    const omitted = dumpPayload(foo);
    omitted.fill(0, omitted.length - 8);
    expect(readDump(omitted).raw).toEqual(foo.raw);
    const body = bytes(243, 1, [1, 2, 3, 4], 5, str("x"), 0, 0, str("foo"));
    const withMeta = Buffer.concat([body, Buffer.alloc(10)]);
    sealPayload(withMeta, 0, { length: withMeta.length, version: 13 });
    expect(readDump(withMeta)).toEqual({ ...foo, version: 13 });
  });

  test("knows the family by the version", () => {
    const valkey = {
      family: "valkey",
      type: 22,
      raw: bytes(1, str("f"), str("v"), Buffer.alloc(8, 255)),
    } as const;
    expect(readDump(dumpPayload(valkey))).toEqual({ ...valkey, version: 80 });
  });

  test("refuses what is too short or has another checksum", () => {
    expect(() => readDump(Buffer.alloc(10))).toThrow(DumpPayloadError);
    const payload = dumpPayload(foo);
    for (let at = 0; at < payload.length; at++) {
      const flipped = Buffer.from(payload);
      flipped[at] = (flipped[at] as number) ^ 4;
      expect(() => readDump(flipped)).toThrow(DumpPayloadError);
    }
    const endless = Buffer.concat([bytes(243, 7, [0, 0, 0, 0], 5), Buffer.alloc(10)]);
    sealPayload(endless, 0, { length: endless.length, version: 13 });
    expect(() => readDump(endless)).toThrow(DumpPayloadError);
  });

  test("a type that RESTORE cannot take is refused", () => {
    expect(() => dumpPayload({ family: "redis", type: 30, raw: Buffer.alloc(1) })).toThrow(
      DumpPayloadError,
    );
  });
});
