/**
 * Zipmap, the packing of small hashes before Redis 2.6.
 *
 *   count (1 byte, 254 and 255: unknown), entries, 0xFF
 *   entry     field length, field, value length, unused bytes (1 byte), value, that many unused bytes
 *   length    1 byte below 254, or 254 and u32 little-endian
 */
import { PackedCursor } from "./packed.ts";

const END = 0xff;

export class ZipmapCursor extends PackedCursor {
  #isValue = false;

  constructor(bytes: Buffer, offset: number) {
    super(bytes, offset);
    if (bytes.length < 2 || bytes[bytes.length - 1] !== END) throw this.malformed("no end mark");
    this.at = 1;
  }

  next(): Buffer | undefined {
    const { bytes } = this;
    this.need(this.at, 1);
    const first = bytes[this.at] as number;
    if (first === END && !this.#isValue) {
      if (this.at !== bytes.length - 1) throw this.malformed("bytes after the end mark");
      return undefined;
    }
    if (first > 254) throw this.malformed("a length of 255");
    const long = first === 254;
    this.need(this.at, long ? 5 : 1);
    const length = long ? bytes.readUInt32LE(this.at + 1) : first;
    let from = this.at + (long ? 5 : 1);
    let unused = 0;
    if (this.#isValue) {
      this.need(from, 1);
      unused = bytes[from++] as number;
    }
    const element = this.slice(from, length);
    this.at += unused;
    if (this.at >= bytes.length) throw this.malformed("an element that reaches over the end");
    this.#isValue = !this.#isValue;
    return element;
  }
}
