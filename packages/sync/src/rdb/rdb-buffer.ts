/**
 * Reads the primitives of the format from chunks of any size: lengths, strings, fixed bytes. Each method either reads
 * one whole item and moves `pos` past it, or leaves `pos`, stores in `want` how many bytes it needs, and
 * returns MORE (or false, or undefined).
 *
 *   length   00LLLLLL                      6 bits
 *            01LLLLLL L                    14 bits
 *            10000000 LLLL                 32 bits, big-endian
 *            10000001 LLLLLLLL             64 bits, big-endian
 *   string   length, then its bytes
 *            11000000 I                    8, 16, 32 bits, little-endian: an integer's decimal digits
 *            11000001 II
 *            11000010 IIII
 *            11000011 length length bytes  LZF: compressed size, original size
 */
import { ChunkBuffer } from "../chunk-buffer.ts";
import { ElementTooLargeError, RdbFormatError, UnsupportedRdbError } from "../errors.ts";
import { decompress, plausible } from "./lzf.ts";

/** The item is not complete. */
export const MORE = -1;

/** How a string is stored. */
const RAW = 0;
const INTEGER = 1;
const LZF = 2;

export class RdbBuffer extends ChunkBuffer {
  /** The largest string that may be held whole. */
  maxElementBytes: number = Number.MAX_SAFE_INTEGER;
  /** Grows by the decoded size of every string read or skipped. */
  decoded = 0;
  /** The value of `decoded` above which skipping stops. */
  limit: number = Number.POSITIVE_INFINITY;

  /** How and where the string is stored whose head was read last, and its decoded size. */
  #form: number = RAW;
  #from = 0;
  stored = 0;
  size = 0;

  /** Whether the string whose head was read last is compressed. */
  get compressed(): boolean {
    return this.#form === LZF;
  }

  /** Records that the input must extend to `to`. */
  lack(to: number): typeof MORE {
    this.want = to - this.start;
    return MORE;
  }

  /** A length, or MORE. Above 2^53 it is inexact; use `bigLength` where that is possible. */
  length(): number {
    const { bytes, pos, end } = this;
    if (pos >= end) return this.lack(pos + 1);
    const first = bytes[pos] as number;
    if (first < 0x40) {
      this.pos = pos + 1;
      return first;
    }
    if (first < 0x80) {
      if (pos + 2 > end) return this.lack(pos + 2);
      this.pos = pos + 2;
      return ((first & 0x3f) << 8) | (bytes[pos + 1] as number);
    }
    return this.#wideLength(first);
  }

  #wideLength(first: number): number {
    const { bytes, pos, end } = this;
    if (first !== 0x80 && first !== 0x81) throw this.malformed(`byte ${first} is not a length`);
    const width = first === 0x80 ? 5 : 9;
    if (pos + width > end) return this.lack(pos + width);
    this.pos = pos + width;
    if (first === 0x80) return bytes.readUInt32BE(pos + 1);
    return bytes.readUInt32BE(pos + 1) * 0x1_0000_0000 + bytes.readUInt32BE(pos + 5);
  }

  /** A length with all of its 64 bits, or undefined. */
  bigLength(): bigint | undefined {
    const wide = this.pos + 9 <= this.end && this.bytes[this.pos] === 0x81;
    if (wide) {
      this.pos += 9;
      return this.bytes.readBigUInt64BE(this.pos - 8);
    }
    const length = this.length();
    return length === MORE ? undefined : BigInt(length);
  }

  /** A number of elements, or MORE. */
  count(): number {
    const at = this.pos;
    const count = this.length();
    if (count > Number.MAX_SAFE_INTEGER) {
      this.pos = at;
      throw this.malformed("a count above 2^53");
    }
    return count;
  }

  /** Reads the head of a string and sets `stored`, `size`, `compressed`; returns false if it is not complete. */
  head(): boolean {
    const { bytes, pos, end } = this;
    if (pos >= end) {
      this.lack(pos + 1);
      return false;
    }
    const first = bytes[pos] as number;
    if (first < 0x40) {
      this.#form = RAW;
      this.#from = pos + 1;
      this.stored = first;
      this.size = first;
      return true;
    }
    return first < 0xc0 ? this.#rawHead() : this.#encodedHead(first);
  }

  #rawHead(): boolean {
    const at = this.pos;
    const length = this.length();
    if (length === MORE) return false;
    this.#form = RAW;
    this.#from = this.pos;
    this.stored = length;
    this.size = length;
    this.pos = at;
    return true;
  }

  #encodedHead(first: number): boolean {
    const at = this.pos;
    if (first <= 0xc2) {
      this.#form = INTEGER;
      this.#from = at + 1;
      this.stored = 1 << (first & 3);
      this.size = this.stored;
      return true;
    }
    if (first > 0xc3) throw this.unsupported("encoding", first, "no server writes this string");
    this.pos = at + 1;
    const stored = this.length();
    const size = stored === MORE ? MORE : this.length();
    this.#from = this.pos;
    this.pos = at;
    if (size === MORE) return false;
    if (!plausible(stored, size)) throw this.malformed(`${stored} bytes cannot become ${size}`);
    this.#form = LZF;
    this.stored = stored;
    this.size = size;
    return true;
  }

  /** Moves past the head that was read, to the stored bytes. */
  enter(): void {
    this.pos = this.#from;
  }

  /** Whether all stored bytes of the string whose head was read have arrived. */
  whole(): boolean {
    if (this.size > this.maxElementBytes) {
      throw new ElementTooLargeError(this.offset, this.size, this.maxElementBytes);
    }
    const to = this.#from + this.stored;
    if (to <= this.end) return true;
    this.lack(to);
    return false;
  }

  /** Moves past one string; returns false if it is not complete. */
  skipString(): boolean {
    if (!this.head() || !this.whole()) return false;
    this.decoded += this.size;
    this.pos = this.#from + this.stored;
    return true;
  }

  /** Whether more was skipped than the limit allows. */
  get isOver(): boolean {
    return this.decoded > this.limit;
  }

  /**
   * Moves past up to `count` strings and returns how many. Stops early if bytes are missing, and directly
   * after the string that crosses the limit.
   */
  skipStrings(count: number): number {
    let done = 0;
    while (done < count && !this.isOver) {
      // Most strings are short, so they are handled here.
      const { bytes, end } = this;
      const room = this.limit - this.decoded;
      let pos = this.pos;
      let decoded = 0;
      while (done < count && pos < end && decoded <= room) {
        const length = bytes[pos] as number;
        if (length >= 0x40 || pos + 1 + length > end) break;
        pos += 1 + length;
        decoded += length;
        done++;
      }
      this.pos = pos;
      this.decoded += decoded;
      if (done === count || this.isOver) break;
      if (!this.skipString()) break;
      done++;
    }
    return done;
  }

  /** One decoded string, or undefined. A view if the file has the bytes uncompressed. */
  string(): Buffer | undefined {
    if (!this.head() || !this.whole()) return undefined;
    const from = this.#from;
    const to = from + this.stored;
    const text = this.#decode(from, to);
    this.decoded += text.length;
    this.pos = to;
    return text;
  }

  #decode(from: number, to: number): Buffer {
    if (this.#form === RAW) return this.bytes.subarray(from, to);
    if (this.#form === INTEGER) {
      return Buffer.from(String(this.bytes.readIntLE(from, to - from)), "latin1");
    }
    try {
      return decompress(this.bytes.subarray(from, to), this.size);
    } catch {
      throw this.malformed("a string that is not valid LZF");
    }
  }

  /** Whether the string at `pos`, which is complete, is stored without compression. */
  get isRaw(): boolean {
    return this.#form === RAW;
  }

  /** Moves past `count` bytes and returns true, or returns false if bytes are missing. */
  skip(count: number): boolean {
    const to = this.pos + count;
    if (to > this.end) {
      this.lack(to);
      return false;
    }
    this.pos = to;
    return true;
  }

  malformed(problem: string): RdbFormatError {
    return new RdbFormatError(this.offset, problem);
  }

  /** Set by the header; used only in errors. */
  family = "redis";

  unsupported(
    what: "version" | "opcode" | "type" | "encoding",
    id: number,
    reason: string,
  ): UnsupportedRdbError {
    return new UnsupportedRdbError({ offset: this.offset, what, id, family: this.family, reason });
  }
}
