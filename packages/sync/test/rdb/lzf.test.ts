import fc from "fast-check";
import { expect, test } from "vitest";
import { Crc64 } from "../../src/rdb/crc64.ts";
import { decompress, LzfPieces } from "../../src/rdb/lzf.ts";

/** Compresses, simply: literals, and references to the last place where three bytes stood. */
function compress(input: Buffer): Buffer {
  const out: number[] = [];
  const seen = new Map<string, number>();
  let literals: number[] = [];
  const flush = () => {
    for (let at = 0; at < literals.length; at += 32) {
      const run = literals.slice(at, at + 32);
      out.push(run.length - 1, ...run);
    }
    literals = [];
  };
  for (let at = 0; at < input.length; ) {
    const key = input.toString("latin1", at, at + 3);
    const found = seen.get(key);
    seen.set(key, at);
    const distance = at - (found ?? at) - 1;
    let length = 0;
    if (found !== undefined && distance < 8192 && at + 3 <= input.length) {
      while (
        length < 264 &&
        at + length < input.length &&
        input[found + length] === input[at + length]
      )
        length++;
    }
    if (length < 3) {
      literals.push(input[at++] as number);
      continue;
    }
    flush();
    const long = length - 2;
    if (long < 7) out.push((long << 5) | (distance >> 8), distance & 0xff);
    else out.push(0xe0 | (distance >> 8), long - 7, distance & 0xff);
    at += length;
  }
  flush();
  return Buffer.from(out);
}

const content = fc
  .array(fc.tuple(fc.uint8Array({ minLength: 1, maxLength: 20 }), fc.nat(2000)), {
    minLength: 1,
    maxLength: 20,
  })
  .map((runs) =>
    Buffer.concat(runs.flatMap(([bytes, times]) => Array<Uint8Array>(times + 1).fill(bytes))),
  );

test("what was compressed comes back, whole and in pieces of any feeding", () => {
  fc.assert(
    fc.property(content, fc.integer({ min: 1, max: 5000 }), (original, feed) => {
      const packed = compress(original);
      expect(decompress(packed, original.length).equals(original)).toBe(true);
      const lzf = new LzfPieces(original.length, 8192);
      const pieces: Buffer[] = [];
      for (let at = 0; at < packed.length; at += feed) {
        lzf.feed(packed.subarray(at, at + feed));
        for (let piece = lzf.piece(); piece !== undefined; piece = lzf.piece()) pieces.push(piece);
      }
      lzf.finish();
      expect(Buffer.concat(pieces).equals(original)).toBe(true);
      expect(pieces.slice(0, -1).every(({ length }) => length === 8192)).toBe(true);
    }),
    { numRuns: 60 },
  );
});

test.each([
  ["a literal that reaches over the end", [5, 1, 2], 6],
  ["a reference before the beginning", [0, 65, 0x20, 5], 4],
  ["more than was announced", [2, 1, 2, 3], 2],
  ["less than was announced", [2, 1, 2, 3], 9],
  ["half a reference", [0, 65, 0xe0], 9],
])("%s is refused", (_, bytes, size) => {
  const input = Buffer.from(bytes);
  expect(() => decompress(input, size)).toThrow("LZF");
  const pieces = new LzfPieces(size, 8192);
  pieces.feed(input);
  expect(() => {
    while (pieces.piece() !== undefined);
    pieces.finish();
  }).toThrow("LZF");
});

test("CRC64 has its published check value, in any cut", () => {
  const text = Buffer.from("123456789");
  expect(new Crc64().update(text).toString()).toBe("e9c6d914c4b8d9ca");
  for (let at = 0; at <= text.length; at++) {
    expect(new Crc64().update(text, 0, at).update(text, at).toString()).toBe("e9c6d914c4b8d9ca");
  }
});
