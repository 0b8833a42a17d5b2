/**
 * Reads the replies of RESP2 from chunks of any size:
 *
 *   +OK  -ERR why  :42  $3 abc  $-1 (null)  *2 <element> <element>  *-1 (null)
 *
 * It never reads an element twice: an array that is not complete stays open, and the bytes of an incomplete element
 * wait until all of it has arrived. So a large reply costs the same in small chunks as in large ones.
 *
 *   | element | element | incomp...      rest: kept, together with the chunks that follow
 */
import { constants } from "node:buffer";

/** An error reply of the server. Its message is the whole line. */
export class ReplyError extends Error {
  override readonly name = "ReplyError";
}

/** The peer sent something that is not RESP2. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
}

/** A reply as it was received: errors are values, also inside an array. */
export type RawReply = string | number | null | Buffer | ReplyError | RawReply[];

/** The owner of a decoder. */
export interface ReplyReceiver {
  /** Whether the next reply has Buffers instead of strings. */
  isBinary(): boolean;
  receive(reply: RawReply): void;
}

/** An array that is not complete. */
interface OpenArray {
  readonly elements: RawReply[];
  missing: number;
  readonly outer: OpenArray | undefined;
}

const CR = 0x0d;
const LF = 0x0a;
const PLUS = 0x2b;
const MINUS = 0x2d;
const COLON = 0x3a;
const DOLLAR = 0x24;
const STAR = 0x2a;
const ZERO = 0x30;
const NINE = 0x39;
/** A line this long without an end is not RESP. A script can reply with an error of megabytes. */
const LONGEST_LINE = 1 << 26;
const LONGEST_NUMBER = 32;
/** The size of an element that ends in LF: not known. */
const UNTIL_LF = 0;

const NOTHING = Buffer.alloc(0);

/** Reads replies and passes each of them to its receiver. */
export class ReplyDecoder {
  readonly #receiver: ReplyReceiver;
  #bytes: Buffer = NOTHING;
  /** Where the current element begins or, after it was read, ends. */
  #at = 0;
  #array: OpenArray | undefined;
  #binary = false;
  /** The start of an incomplete element, how many bytes of it there are, and how many it has (or UNTIL_LF). */
  #rest: Buffer[] = [];
  #size = 0;
  #want = 0;

  constructor(receiver: ReplyReceiver) {
    this.#receiver = receiver;
  }

  /** Reads a chunk. Throws ProtocolError. */
  push(chunk: Buffer): void {
    let bytes = chunk;
    if (this.#size > 0) {
      this.#rest.push(chunk);
      this.#size += chunk.length;
      if (this.#want === UNTIL_LF ? !this.#lineEndsIn(chunk) : this.#size < this.#want) return;
      bytes = Buffer.concat(this.#rest, this.#size);
      this.#rest = [];
      this.#size = 0;
    }
    this.#bytes = bytes;
    this.#at = 0;
    while (this.#at < bytes.length && this.#element());
    if (this.#at < bytes.length) {
      const rest = bytes.subarray(this.#at);
      this.#rest.push(rest);
      this.#size = rest.length;
    }
    this.#bytes = NOTHING;
  }

  /** Reads one element; returns false if it is incomplete. */
  #element(): boolean {
    if (this.#array === undefined) this.#binary = this.#receiver.isBinary();
    const type = this.#bytes[this.#at];
    if (type === DOLLAR) return this.#bulk();
    if (type === COLON) return this.#integer();
    if (type === STAR) return this.#open();
    if (type === PLUS || type === MINUS) return this.#line(type);
    throw new ProtocolError(`the server sent byte ${type} where a reply has to begin`);
  }

  #line(type: number): boolean {
    const bytes = this.#bytes;
    const end = bytes.indexOf(CR, this.#at);
    if (end < 0 || end + 1 >= bytes.length) return this.#incomplete(UNTIL_LF);
    const line = bytes.toString("utf8", this.#at + 1, end);
    this.#skipLineEnd(end);
    this.#complete(type === PLUS ? line : new ReplyError(line));
    return true;
  }

  #integer(): boolean {
    const value = this.#number();
    if (value === undefined) return false;
    this.#complete(value);
    return true;
  }

  #bulk(): boolean {
    const begin = this.#at;
    const size = this.#number();
    if (size === undefined) return false;
    if (size < 0) {
      this.#complete(null);
      return true;
    }
    const bytes = this.#bytes;
    const from = this.#at;
    const to = from + size;
    if (to + 2 > bytes.length) {
      this.#at = begin;
      return this.#incomplete(to + 2 - begin);
    }
    this.#skipLineEnd(to);
    if (this.#binary) this.#complete(bytes.subarray(from, to));
    else if (size > constants.MAX_STRING_LENGTH) this.#complete(new ReplyError(tooLong(size)));
    else this.#complete(bytes.toString("utf8", from, to));
    return true;
  }

  #open(): boolean {
    const missing = this.#number();
    if (missing === undefined) return false;
    if (missing > 0) this.#array = { elements: [], missing, outer: this.#array };
    else this.#complete(missing < 0 ? null : []);
    return true;
  }

  /** The number behind a type, with its line end; undefined if it is incomplete. */
  #number(): number | undefined {
    const bytes = this.#bytes;
    const end = bytes.length;
    const negative = bytes[this.#at + 1] === MINUS;
    const first = this.#at + (negative ? 2 : 1);
    let at = first;
    let value = 0;
    for (; at < end; at++) {
      const byte = bytes[at] as number;
      if (byte < ZERO || byte > NINE) break;
      value = value * 10 + (byte - ZERO);
    }
    if (at - first > LONGEST_NUMBER)
      throw new ProtocolError("the server sent a number without an end");
    if (at + 1 >= end) {
      this.#incomplete(UNTIL_LF);
      return undefined;
    }
    if (at === first) throw new ProtocolError("the server sent no number where one has to be");
    this.#skipLineEnd(at);
    return negative ? 0 - value : value;
  }

  #skipLineEnd(at: number): void {
    if (this.#bytes[at] !== CR || this.#bytes[at + 1] !== LF) {
      throw new ProtocolError("the server sent an element that does not end in CR LF");
    }
    this.#at = at + 2;
  }

  /** The current element needs this many bytes. */
  #incomplete(want: number): false {
    this.#want = want;
    return false;
  }

  /** Whether the incomplete line ends in its newest chunk: so a long line is not searched again with each chunk. */
  #lineEndsIn(chunk: Buffer): boolean {
    if (chunk.includes(LF)) return true;
    if (this.#size > LONGEST_LINE) throw new ProtocolError("the server sent a line without an end");
    return false;
  }

  /** Passes a value to the array that it belongs to, or to the receiver. */
  #complete(value: RawReply): void {
    let complete = value;
    for (let array = this.#array; array !== undefined; array = this.#array) {
      array.elements.push(complete);
      array.missing -= 1;
      if (array.missing > 0) return;
      complete = array.elements;
      this.#array = array.outer;
    }
    this.#receiver.receive(complete);
  }
}

function tooLong(size: number): string {
  return `ERR the reply has ${size} bytes, which is more than a string can have`;
}
