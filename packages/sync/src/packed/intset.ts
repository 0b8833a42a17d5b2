/** Intset: width u32 (2, 4 or 8), count u32, then that many signed integers, little-endian and sorted. */
import { digits, PackedCursor } from "./packed.ts";

const HEADER = 8;

export class IntsetCursor extends PackedCursor {
  readonly #width: number;

  constructor(bytes: Buffer, offset: number) {
    super(bytes, offset);
    if (bytes.length < HEADER) throw this.malformed("the end in the header");
    const width = bytes.readUInt32LE(0);
    if (width !== 2 && width !== 4 && width !== 8)
      throw this.malformed(`integers of ${width} bytes`);
    if (bytes.length !== HEADER + width * bytes.readUInt32LE(4)) {
      throw this.malformed("a count that is not that of the string");
    }
    this.#width = width;
    this.at = HEADER;
  }

  next(): Buffer | undefined {
    const { bytes, at } = this;
    if (at === bytes.length) return undefined;
    this.at = at + this.#width;
    if (this.#width === 2) return digits(bytes.readInt16LE(at));
    return digits(this.#width === 4 ? bytes.readInt32LE(at) : bytes.readBigInt64LE(at));
  }
}
