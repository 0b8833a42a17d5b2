/**
 * Ziplist (up to Redis 6.2).
 *
 *   total bytes u32, offset of the tail u32, count u16 (65535: unknown), entries, 0xFF   little-endian
 *   entry      size of the previous entry (1 byte, or 254 and u32), encoding, data
 *   00LLLLLL           string, 6-bit length          C0, D0, E0     16, 32, 64 bits
 *   01LLLLLL L         string, 14-bit length         F0, FE         24, 8 bits
 *   10------ LLLL      string, 32-bit length         F1 to FD       0 to 12
 */
import { digits, PackedCursor } from "./packed.ts";

const HEADER = 10;
const END = 0xff;

export class ZiplistCursor extends PackedCursor {
  constructor(bytes: Buffer, offset: number) {
    super(bytes, offset);
    if (bytes.length < HEADER + 1 || bytes.readUInt32LE(0) !== bytes.length) {
      throw this.malformed("a size that is not that of the string");
    }
    if (bytes[bytes.length - 1] !== END) throw this.malformed("no end mark");
    this.at = HEADER;
  }

  next(): Buffer | undefined {
    const { bytes } = this;
    if (this.at === bytes.length - 1) return undefined;
    const from = this.at + (bytes[this.at] === 254 ? 5 : 1);
    this.need(from, 1);
    const first = bytes[from] as number;
    if (first < 0x40) return this.#text(from + 1, first);
    if (first < 0x80) {
      this.need(from, 2);
      return this.#text(from + 2, ((first & 0x3f) << 8) | (bytes[from + 1] as number));
    }
    if (first < 0xc0) {
      this.need(from, 5);
      return this.#text(from + 5, bytes.readUInt32BE(from + 1));
    }
    return digits(this.#integer(from, first));
  }

  #integer(from: number, first: number): number | bigint {
    const { bytes } = this;
    if (first > 0xf0 && first < 0xfe) {
      this.#behind(from + 1);
      return (first & 0xf) - 1;
    }
    const width = WIDTHS.get(first);
    if (width === undefined) throw this.malformed(`encoding ${first}`);
    this.need(from, 1 + width);
    this.#behind(from + 1 + width);
    return width === 8 ? bytes.readBigInt64LE(from + 1) : bytes.readIntLE(from + 1, width);
  }

  #text(from: number, length: number): Buffer {
    const text = this.slice(from, length);
    this.#behind(from + length);
    return text;
  }

  #behind(at: number): void {
    this.at = at;
    if (at >= this.bytes.length) throw this.malformed("an element that reaches over the end");
  }
}

const WIDTHS: ReadonlyMap<number, number> = new Map([
  [0xc0, 2],
  [0xd0, 4],
  [0xe0, 8],
  [0xf0, 3],
  [0xfe, 1],
]);
