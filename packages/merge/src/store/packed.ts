/**
 * Reads lists that a script packed into one string with cmsgpack. Redis and the client then handle one
 * string instead of hundreds, which is most of what a batch costs.
 *
 *   list      0x90-0x9f | 0xdc len16 | 0xdd len32               then that many elements
 *   element   0xa0-0xbf | 0xd9 len8  | 0xda len16 | 0xdb len32   then that many bytes
 */

/** Reads one list after the other. Throws RangeError for bytes that are not a list of strings. */
export class PackedReader {
  readonly #packed: Buffer;
  #at = 0;

  constructor(packed: Buffer) {
    this.#packed = packed;
  }

  /** The next list as strings of Latin-1: for ASCII, which costs least. */
  strings(): string[] {
    const packed = this.#packed;
    return this.#list((from, to) => packed.toString("latin1", from, to));
  }

  /** The next list as views: each keeps the whole packed string in memory as long as it is used. */
  buffers(): Buffer[] {
    const packed = this.#packed;
    return this.#list((from, to) => packed.subarray(from, to));
  }

  #list<T>(take: (from: number, to: number) => T): T[] {
    const list: T[] = [];
    for (let left = this.#length(LIST); left > 0; left--) {
      const length = this.#length(ELEMENT);
      const from = this.#at;
      this.#at += length;
      if (this.#at > this.#packed.length) throw this.#broken();
      list.push(take(from, this.#at));
    }
    return list;
  }

  /** Reads the number in front of a list or an element. */
  #length({ short, mask, codes }: Kind): number {
    const code = this.#packed[this.#at] ?? 0;
    if ((code & ~mask) === short) {
      this.#at += 1;
      return code & mask;
    }
    const bytes = codes.get(code);
    if (bytes === undefined || this.#at + bytes >= this.#packed.length) throw this.#broken();
    const length = this.#packed.readUIntBE(this.#at + 1, bytes);
    this.#at += 1 + bytes;
    return length;
  }

  #broken(): RangeError {
    return new RangeError(`the packed reply is broken at byte ${this.#at}`);
  }
}

/** How the length of a list or an element is written. */
interface Kind {
  /** The high bits of a byte that holds the length itself, in the bits of `mask`. */
  readonly short: number;
  readonly mask: number;
  /** Leading byte -> number of bytes of the length that follow. */
  readonly codes: ReadonlyMap<number, number>;
}

const LIST: Kind = {
  short: 0x90,
  mask: 0x0f,
  codes: new Map([
    [0xdc, 2],
    [0xdd, 4],
  ]),
};
const ELEMENT: Kind = {
  short: 0xa0,
  mask: 0x1f,
  codes: new Map([
    [0xd9, 1],
    [0xda, 2],
    [0xdb, 4],
  ]),
};
