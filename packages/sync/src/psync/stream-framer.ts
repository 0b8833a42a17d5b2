/**
 * Finds the command boundaries in a replication stream without decoding it, and removes the stray
 * newlines between commands.
 *
 * The offset of a replication stream counts every byte of a command and no stray newline. A newline is
 * stray only between two commands, so counting correctly requires the boundaries. After this
 * framer, bytes and offsets correspond: the spool holds exactly the bytes that count.
 *
 *            "*"            digits \r\n          "$"          digits \r\n         bytes \r\n
 *   between -----> in count -----------> before -----> in length ----------> in bytes --------.
 *      ^  \n: dropped                     bulk ^                                              |
 *      |                                       '------------- arguments left -----------------|
 *      '------------------------------------------------------ none left ---------------------'
 */
import { RespFormatError } from "../errors.ts";

const NEWLINE = 0x0a;
const CR = 0x0d;
const STAR = 0x2a;
const DOLLAR = 0x24;
const ZERO = 0x30;
const NINE = 0x39;

const BETWEEN = 0;
const IN_COUNT = 1;
const BEFORE_BULK = 2;
const IN_LENGTH = 3;
const IN_BYTES = 4;
const IN_LINE = 5;

/** Tracks one stream across chunks and across connections that continue it byte by byte. */
export class StreamFramer {
  #state = BETWEEN;
  #arguments = 0;
  #number = 0;
  #skip = 0;
  #position = 0;

  /** True if the last byte ended a command. */
  get between(): boolean {
    return this.#state === BETWEEN;
  }

  /** The chunk without its stray newlines: the chunk itself if it has none. */
  clean(chunk: Buffer): Buffer {
    let kept: Buffer[] | undefined;
    let from = 0;
    let at = 0;
    while (at < chunk.length) {
      if (this.#state === IN_BYTES) {
        const step = Math.min(this.#skip, chunk.length - at);
        at += step;
        this.#skip -= step;
        if (this.#skip === 0) this.#argumentDone();
        continue;
      }
      const byte = chunk[at] as number;
      if (this.#state === BETWEEN && byte === NEWLINE) {
        kept ??= [];
        if (at > from) kept.push(chunk.subarray(from, at));
        from = at + 1;
      } else {
        this.#step(byte, this.#position + at);
      }
      at += 1;
    }
    this.#position += chunk.length;
    if (kept === undefined) return chunk;
    if (from < chunk.length) kept.push(chunk.subarray(from));
    return Buffer.concat(kept);
  }

  #step(byte: number, position: number): void {
    switch (this.#state) {
      case BETWEEN:
        // Redis sends only arrays; an inline command ends with its line.
        this.#state = byte === STAR ? IN_COUNT : IN_LINE;
        this.#number = 0;
        return;
      case IN_LINE:
        if (byte === NEWLINE) this.#state = BETWEEN;
        return;
      case BEFORE_BULK:
        if (byte !== DOLLAR) throw new RespFormatError(position, `expected "$", found ${byte}`);
        this.#state = IN_LENGTH;
        this.#number = 0;
        return;
      default:
        this.#header(byte, position);
    }
  }

  /** A digit, or the end, of an argument count or a length. */
  #header(byte: number, position: number): void {
    if (byte >= ZERO && byte <= NINE) {
      this.#number = this.#number * 10 + (byte - ZERO);
      return;
    }
    if (byte === CR) return;
    if (byte !== NEWLINE) throw new RespFormatError(position, `expected a digit, found ${byte}`);
    if (this.#state === IN_LENGTH) {
      this.#skip = this.#number + 2;
      this.#state = IN_BYTES;
      return;
    }
    this.#arguments = this.#number;
    this.#state = this.#arguments === 0 ? BETWEEN : BEFORE_BULK;
  }

  #argumentDone(): void {
    this.#arguments -= 1;
    this.#state = this.#arguments === 0 ? BETWEEN : BEFORE_BULK;
  }
}
