/**
 * Listpack (Redis 7.0 and later; streams since 5.0).
 *
 *   total bytes u32, count u16 (65535: unknown), entries, 0xFF           little-endian
 *   entry      encoding and data, then their size again for reading backwards
 *   0xxxxxxx                7-bit unsigned         10LLLLLL            string, 6-bit length
 *   110xxxxx x              13-bit signed          1110LLLL L          string, 12-bit length
 *   F1, F2, F3, F4          16, 24, 32, 64 bits    F0 LLLL             string, 32-bit length
 */
import { digits, PackedCursor } from "./packed.ts";

const HEADER = 6;
const END = 0xff;

export class ListpackCursor extends PackedCursor {
  constructor(bytes: Buffer, offset: number) {
    super(bytes, offset);
    if (bytes.length < HEADER + 1 || bytes.readUInt32LE(0) !== bytes.length) {
      throw this.malformed("a size that is not that of the string");
    }
    if (bytes[bytes.length - 1] !== END) throw this.malformed("no end mark");
    this.at = HEADER;
  }

  /** Whether the last element has been read. */
  get done(): boolean {
    return this.at >= this.bytes.length - 1;
  }

  next(): Buffer | undefined {
    const { bytes, at: from } = this;
    const first = bytes[from] as number;
    if (first === END && this.done) return undefined;
    if (first < 0x80) {
      this.#behind(from, 1);
      return digits(first);
    }
    if (first < 0xc0) return this.#text(from, 1, first & 0x3f);
    if (first >= 0xe0 && first < 0xf0) {
      this.need(from, 2);
      return this.#text(from, 2, ((first & 0xf) << 8) | (bytes[from + 1] as number));
    }
    if (first === 0xf0) {
      this.need(from, 5);
      return this.#text(from, 5, bytes.readUInt32LE(from + 1));
    }
    return digits(this.#integer(first));
  }

  /** The next element as a number; a string is parsed as a decimal. */
  nextNumber(): number {
    const first = this.bytes[this.at] as number;
    if (first < 0x80) {
      this.#behind(this.at, 1);
      return first;
    }
    const element = this.next();
    const value = element === undefined ? Number.NaN : Number(element.toString("latin1"));
    if (Number.isNaN(value)) throw this.malformed("an integer expected");
    return value;
  }

  /** The next element as a 64-bit integer. */
  nextBig(): bigint {
    const first = this.bytes[this.at] as number;
    if (first < 0x80) return BigInt(this.nextNumber());
    if (first < 0xc0 || (first >= 0xe0 && first <= 0xf0) || first > 0xf4) {
      throw this.malformed("an integer expected");
    }
    return BigInt(this.#integer(first));
  }

  #integer(first: number): number | bigint {
    const { bytes, at: from } = this;
    if (first < 0xe0) {
      this.need(from, 2);
      const value = ((first & 0x1f) << 8) | (bytes[from + 1] as number);
      this.#behind(from, 2);
      return value >= 0x1000 ? value - 0x2000 : value;
    }
    const width = WIDTHS[first - 0xf1];
    if (width === undefined) throw this.malformed(`encoding ${first}`);
    this.need(from, 1 + width);
    this.#behind(from, 1 + width);
    return width === 8 ? bytes.readBigInt64LE(from + 1) : bytes.readIntLE(from + 1, width);
  }

  #text(from: number, head: number, length: number): Buffer {
    const text = this.slice(from + head, length);
    this.#behind(from, head + length);
    return text;
  }

  /** Moves past an entry of `size` bytes and its size for reading backwards. */
  #behind(from: number, size: number): void {
    // A size that is exactly the maximum of a width is written with the next width, as in servers.
    const width =
      size <= 127 ? 1 : size < 16383 ? 2 : size < 2097151 ? 3 : size < 268435455 ? 4 : 5;
    this.at = from + size + width;
    if (this.at >= this.bytes.length) throw this.malformed("an element that reaches over the end");
  }
}

/** The sizes in bytes of the integers F1 to F4. */
const WIDTHS: readonly (number | undefined)[] = [2, 3, 4, 8];
