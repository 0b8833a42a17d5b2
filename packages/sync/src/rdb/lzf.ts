/**
 * LZF, the compression of strings in an RDB.
 *
 *   000LLLLL                       L + 1 literal bytes follow
 *   LLLDDDDD DDDDDDDD              copy L + 2 bytes from D + 1 back, L is 1 to 6
 *   111DDDDD LLLLLLLL DDDDDDDD     the same with L + 7 + 2 bytes
 *
 * A copy may overlap its own output. It reaches back 8192 bytes at most, so a large string can be
 * decompressed in pieces while only its last piece is kept.
 */
import { RdbFormatError } from "../errors.ts";

/** Three bytes give at most 264, so a larger original size is false. */
const MOST_PER_BYTE = 88;

/** Whether `stored` compressed bytes can become `size` bytes. */
export function plausible(stored: number, size: number): boolean {
  return size > 0 && size <= stored * MOST_PER_BYTE + MOST_PER_BYTE;
}

/** Decompresses the whole `input` into `size` bytes. */
export function decompress(input: Buffer, size: number): Buffer {
  const output = Buffer.allocUnsafe(size);
  const inputEnd = input.length;
  let from = 0;
  let to = 0;
  while (from < inputEnd) {
    const control = input[from++] as number;
    if (control < 32) {
      const end = from + control + 1;
      if (end > inputEnd || to + control + 1 > size) throw broken();
      while (from < end) output[to++] = input[from++] as number;
      continue;
    }
    let length = control >> 5;
    if (length === 7) {
      if (from >= inputEnd) throw broken();
      length += input[from++] as number;
    }
    if (from >= inputEnd) throw broken();
    let back = to - ((control & 31) << 8) - (input[from++] as number) - 1;
    const end = to + length + 2;
    if (back < 0 || end > size) throw broken();
    if (to - back === 1 && length > 16) {
      output.fill(output[back] as number, to, end);
      to = end;
    } else {
      while (to < end) output[to++] = output[back++] as number;
    }
  }
  if (to !== size) throw broken();
  return output;
}

/** Decompresses piece by piece: `feed` compressed bytes, then `piece` until it returns undefined. */
export class LzfPieces {
  readonly #pieceSize: number;
  #left: number;
  #input: Buffer = Buffer.alloc(0);
  #from = 0;
  #output: Buffer;
  #previous: Buffer = Buffer.alloc(0);
  #to = 0;
  /** A copy or literal that the end of a piece interrupted. */
  #run = 0;
  #distance = 0;

  /** `size` is that of the decompressed string, `pieceSize` at least 8192. */
  constructor(size: number, pieceSize: number) {
    this.#pieceSize = pieceSize;
    this.#left = size;
    this.#output = Buffer.allocUnsafeSlow(Math.min(size, pieceSize));
  }

  feed(input: Buffer): void {
    const rest = this.#input.subarray(this.#from);
    this.#input = rest.length === 0 ? input : Buffer.concat([rest, input]);
    this.#from = 0;
  }

  /** The next full piece, or the last one; undefined if more input is needed or everything was returned. */
  piece(): Buffer | undefined {
    if (this.#left === 0) return undefined;
    while (this.#to < this.#output.length) {
      if (this.#run === 0 && !this.#control()) return undefined;
      if (this.#distance === 0 ? !this.#literal() : !this.#copy()) return undefined;
    }
    const piece = this.#output;
    this.#left -= piece.length;
    if (this.#left === 0 && this.#run > 0) throw broken();
    this.#previous = piece;
    this.#output = Buffer.allocUnsafeSlow(Math.min(this.#left, this.#pieceSize));
    this.#to = 0;
    return piece;
  }

  /** Throws unless all input was used and produced exactly the announced size. */
  finish(): void {
    if (this.#left > 0 || this.#from < this.#input.length) throw broken();
  }

  /** Reads the next instruction; returns false if the input does not have all of it yet. */
  #control(): boolean {
    const input = this.#input;
    const at = this.#from;
    if (at >= input.length) return false;
    const control = input[at] as number;
    if (control < 32) {
      this.#from = at + 1;
      this.#run = control + 1;
      this.#distance = 0;
      return true;
    }
    const long = control >> 5 === 7 ? 1 : 0;
    if (at + 1 + long >= input.length) return false;
    this.#run = (control >> 5) + 2 + (long ? (input[at + 1] as number) : 0);
    this.#distance = ((control & 31) << 8) + (input[at + 1 + long] as number) + 1;
    this.#from = at + 2 + long;
    return true;
  }

  #literal(): boolean {
    const room = this.#output.length - this.#to;
    const bytes = Math.min(this.#run, room, this.#input.length - this.#from);
    this.#input.copy(this.#output, this.#to, this.#from, this.#from + bytes);
    this.#from += bytes;
    this.#to += bytes;
    this.#run -= bytes;
    return this.#run === 0 || this.#to === this.#output.length;
  }

  #copy(): boolean {
    const output = this.#output;
    const previous = this.#previous;
    const end = Math.min(this.#to + this.#run, output.length);
    let to = this.#to;
    let back = to - this.#distance;
    if (back < -previous.length) throw broken();
    this.#run -= end - to;
    this.#to = end;
    for (; to < end && back < 0; back++) output[to++] = previous[previous.length + back] as number;
    copyWithin(output, back, { to, end });
    return true;
  }
}

/** Copies earlier bytes of the output to its end; the ranges may overlap. */
function copyWithin(output: Buffer, from: number, { to, end }: { to: number; end: number }): void {
  // A run of one byte, such as zeros, compresses best and is frequent.
  if (to - from === 1 && end - to > 16) {
    output.fill(output[from] as number, to, end);
    return;
  }
  let back = from;
  for (let at = to; at < end; at++) output[at] = output[back++] as number;
}

/** The caller adds the position of the string. */
function broken(): RdbFormatError {
  return new RdbFormatError(0, "a string that is not valid LZF");
}
