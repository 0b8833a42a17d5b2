// Reads a generated RDB of one huge value and prints the most memory that took.
import { RdbReader } from "../../src/rdb/reader.ts";
import { bytes, f64, len, str } from "./build.ts";

const CHUNK = 1024 * 1024;

/** As many copies of a piece as make `total` bytes, in chunks. */
function* copies(piece: Buffer, count: number): Generator<Buffer> {
  const perChunk = Math.max(1, Math.floor(CHUNK / piece.length));
  const chunk = Buffer.concat(Array.from({ length: perChunk }, () => piece));
  let left = count;
  for (; left > perChunk; left -= perChunk) yield Buffer.from(chunk);
  yield Buffer.from(chunk.subarray(0, left * piece.length));
}

/** 264 zeros from three bytes, after one literal: the best that LZF can do. */
function lzfZeros(size: number): { compressed: Buffer; size: number } {
  const runs = Math.floor((size - 1) / 264);
  const run = Buffer.from([0xe0, 0xff, 0x00]);
  const compressed = Buffer.concat([
    Buffer.from([0, 0]),
    ...Array.from({ length: runs }, () => run),
  ]);
  return { compressed, size: 1 + runs * 264 };
}

function lzf(size: number): Buffer {
  const { compressed, size: exact } = lzfZeros(size);
  return bytes(0xc3, len(compressed.length), len(exact), compressed);
}

/** A ziplist of the smallest entries, two bytes each. */
function* ziplist(size: number): Generator<Buffer> {
  const head = Buffer.alloc(10);
  head.writeUInt32LE(size, 0);
  head.writeUInt32LE(10, 4);
  head.writeUInt16LE(65_535, 8);
  yield head;
  yield* copies(Buffer.from([2, 0xf1]), (size - 11) / 2);
  yield Buffer.from([0xff]);
}

const MIB = 1024 * 1024;

function* fileOf(name: string): Generator<Buffer> {
  yield Buffer.from("REDIS0012");
  if (name === "zset") {
    yield bytes(5, str("k"), len(10_000_000));
    yield* copies(bytes(str("member:1234567890"), f64(1.5)), 10_000_000);
  } else if (name === "string") {
    yield bytes(0, str("k"), len(500 * MIB));
    yield* copies(Buffer.alloc(MIB, "x"), 500);
  } else if (name === "lzf-string") {
    yield bytes(0, str("k"), lzf(500 * MIB));
  } else if (name === "lzf-bomb-list") {
    // Each element becomes 20 MB from 0.2 MB.
    yield bytes(1, str("k"), len(50));
    const element = lzf(20 * MIB);
    for (let i = 0; i < 50; i++) yield Buffer.from(element);
  } else if (name === "ziplist-bomb") {
    yield bytes(10, str("k"), len(60 * MIB + 1));
    yield* ziplist(60 * MIB + 1);
  } else if (name === "consumers") {
    yield bytes(21, str("k"), 0, 0, 9, 1, 0, 0, 0, 0, 0, 1, str("g"), 0, 0, 0, 0, len(4_000_000));
    yield* copies(bytes(str("consumer:1234567890"), Buffer.alloc(16), 0), 4_000_000);
  } else if (name === "module") {
    yield bytes(7, str("k"), 0x81, Buffer.alloc(8));
    yield* copies(bytes(5, str("x".repeat(1000))), 300_000);
    yield Buffer.from([0]);
  }
  yield Buffer.from([0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
}

const reader = new RdbReader({ checksum: false });
let parts = 0;
for (const piece of fileOf(process.argv[2] ?? "")) {
  for (let at = 0; at < piece.length; at += CHUNK) {
    reader.push(piece.subarray(at, at + CHUNK));
    for (let entry = reader.next(); entry !== undefined; entry = reader.next()) parts++;
  }
}
reader.end();
const peakMiB = process.resourceUsage().maxRSS / 1024;
process.stdout.write(JSON.stringify({ peakMiB, parts }));
