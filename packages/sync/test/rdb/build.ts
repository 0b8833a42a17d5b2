// RDB files put together by hand, byte by byte.
import { Crc64 } from "../../src/rdb/crc64.ts";

export type Piece = number | string | Buffer | readonly Piece[];

/** Bytes: numbers are bytes, strings are latin1. */
export function bytes(...pieces: readonly Piece[]): Buffer {
  return Buffer.concat(
    pieces.map((piece) => {
      if (typeof piece === "number") return Buffer.from([piece]);
      if (typeof piece === "string") return Buffer.from(piece, "latin1");
      return Buffer.isBuffer(piece) ? piece : bytes(...(piece as readonly Piece[]));
    }),
  );
}

/** A length in its shortest form. */
export function len(n: number): Buffer {
  if (n < 64) return Buffer.from([n]);
  if (n < 16_384) return Buffer.from([0x40 | (n >> 8), n & 0xff]);
  const wide = Buffer.alloc(5, 0x80);
  wide.writeUInt32BE(n, 1);
  return wide;
}

/** A string as it is. */
export function str(text: string | Buffer): Buffer {
  const content = Buffer.from(text as string, "latin1");
  return bytes(len(content.length), content);
}

export function le64(value: bigint | number): Buffer {
  const out = Buffer.alloc(8);
  out.writeBigInt64LE(BigInt(value));
  return out;
}

export function f64(value: number): Buffer {
  const out = Buffer.alloc(8);
  out.writeDoubleLE(value);
  return out;
}

/** A listpack of strings up to 63 bytes. */
export function listpack(...items: readonly string[]): Buffer {
  const entries = items.map((item) => bytes(0x80 | item.length, item, item.length + 1));
  const body = bytes(...entries);
  const head = Buffer.alloc(6);
  head.writeUInt32LE(7 + body.length);
  head.writeUInt16LE(items.length, 4);
  return bytes(head, body, 0xff);
}

/** A whole file: header, body, end and checksum. */
export function rdb(magic: string, ...body: readonly Piece[]): Buffer {
  const content = bytes(magic, ...body, 0xff);
  if (magic.startsWith("REDIS") && Number(magic.slice(5)) < 5) return content;
  const sum = Buffer.alloc(8);
  new Crc64().update(content).write(sum, 0);
  return bytes(content, sum);
}
