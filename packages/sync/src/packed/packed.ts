/**
 * Packed collections: a small list, set, sorted set or hash in one string. Each packing has a cursor that
 * returns one element after another. A cursor never reads outside its bytes, whatever lengths they contain.
 */
import { RdbFormatError } from "../errors.ts";

/** A packed collection while it is read. */
export abstract class PackedCursor {
  protected readonly bytes: Buffer;
  protected at = 0;
  /** Where the bytes begin in the file, for errors. */
  readonly #offset: number;

  constructor(bytes: Buffer, offset: number) {
    this.bytes = bytes;
    this.#offset = offset;
  }

  /** The next element, integers as their decimal digits; undefined after the last one. */
  abstract next(): Buffer | undefined;

  /** The bytes from `from`, after checking that they exist. */
  protected slice(from: number, length: number): Buffer {
    const to = from + length;
    if (to > this.bytes.length) throw this.malformed("an element that reaches over the end");
    this.at = to;
    return this.bytes.subarray(from, to);
  }

  /** Checks that the next `length` bytes from `from` exist. */
  protected need(from: number, length: number): void {
    if (from + length > this.bytes.length) throw this.malformed("the end in an element");
  }

  protected malformed(problem: string): RdbFormatError {
    const name = this.constructor.name.replace("Cursor", "").toLowerCase();
    return new RdbFormatError(this.#offset + this.at, `${problem}, in a ${name}`);
  }
}

/** Digits of small integers, which are the most frequent. They are shared, so they must not be modified. */
const SMALL: readonly Buffer[] = Array.from({ length: 256 }, (_, n) => Buffer.from(String(n)));

/** An integer as an element. */
export function digits(value: number | bigint): Buffer {
  if (typeof value === "number" && value >= 0 && value < 256) return SMALL[value] as Buffer;
  return Buffer.from(String(value), "latin1");
}
