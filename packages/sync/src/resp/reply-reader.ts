/**
 * Reads the replies of a server, RESP2 and RESP3, from chunks of any size. Nested replies are kept on a
 * stack of frames, so that a large reply in small chunks is read once and not from its start each time.
 */
import { ChunkBuffer } from "../chunk-buffer.ts";
import { RespFormatError } from "../errors.ts";

/** An error reply. It is a value and is not thrown, because one reply of a pipeline may fail while others succeed. */
export class ErrorReply {
  /** The whole line, such as `WRONGTYPE Operation against ...`. */
  readonly message: string;

  constructor(message: string) {
    this.message = message;
  }

  /** The first word, such as WRONGTYPE. */
  get prefix(): string {
    return this.message.split(" ", 1)[0] ?? "";
  }
}

/** RESP3 data that the server sends without a request. */
export class PushReply {
  readonly items: readonly Reply[];

  constructor(items: readonly Reply[]) {
    this.items = items;
  }
}

/** A reply: simple strings are strings, bulk strings are Buffers, maps are flat arrays of key and value. */
export type Reply =
  | string
  | Buffer
  | number
  | bigint
  | boolean
  | null
  | ErrorReply
  | PushReply
  | readonly Reply[];

/** An array, set, map or push whose items are still arriving. */
interface Frame {
  readonly items: Reply[];
  missing: number;
  readonly kind: "array" | "push" | "attribute";
}

/** Reads whole replies from chunks of any size. */
export class ReplyReader {
  readonly #buffer = new ChunkBuffer();
  readonly #frames: Frame[] = [];

  push(chunk: Buffer): void {
    this.#buffer.append(chunk);
  }

  /** The bytes of the input that `next` has read. */
  get offset(): number {
    return this.#buffer.offset;
  }

  /** The next whole reply, or undefined if it is not complete yet. Throws RespFormatError. */
  next(): Reply | undefined {
    for (;;) {
      const buffer = this.#buffer;
      if (buffer.end - buffer.start < buffer.want) return undefined;
      const open = this.#frames.at(-1);
      // The last item is read below, where it finishes its frame.
      if (open !== undefined) open.missing -= this.#frequent(open.items, open.missing - 1);
      let value = this.#value();
      if (value === undefined) return undefined;
      buffer.start = buffer.pos;
      buffer.want = 0;
      if (value === OPENED) continue;
      // A finished value may finish its enclosing frame, and so on.
      for (;;) {
        const frame = this.#frames.at(-1);
        if (frame === undefined) return value;
        frame.items.push(value);
        if (--frame.missing > 0) break;
        this.#frames.pop();
        if (frame.kind === "attribute") break; // describes the reply that follows
        value = frame.kind === "push" ? new PushReply(frame.items) : frame.items;
      }
    }
  }

  /** Reads at most `most` whole replies into an array. Returns their number. Throws RespFormatError. */
  read(into: Reply[], most: number): number {
    let done = 0;
    while (done < most) {
      if (this.#frames.length === 0) done += this.#frequent(into, most - done);
      const reply = done < most ? this.next() : undefined;
      if (reply === undefined) break;
      into.push(reply);
      done += 1;
    }
    return done;
  }

  /** Reads consecutive +OK and +QUEUED, at most `most`, and returns their number. A transaction has few other replies. */
  #frequent(into: Reply[], most: number): number {
    const buffer = this.#buffer;
    const { bytes, end } = buffer;
    let at = buffer.start;
    let done = 0;
    for (; done < most; done++) {
      const frequent = frequentAt(bytes, at, end);
      if (frequent === undefined) break;
      into.push(frequent);
      at += frequent.length + 3;
    }
    if (done === 0) return 0;
    buffer.start = at;
    buffer.pos = at;
    buffer.want = 0;
    return done;
  }

  /** The unread bytes, which the caller takes over. The bytes after a FULLRESYNC are not replies. */
  takeRest(): Buffer {
    return this.#buffer.take();
  }

  /** Skips newlines, which a master sends before its reply to keep the connection alive. */
  skipNewlines(): void {
    const buffer = this.#buffer;
    if (this.#frames.length > 0) return;
    while (buffer.pos < buffer.end && buffer.bytes[buffer.pos] === LF) buffer.pos++;
    buffer.start = buffer.pos;
  }

  #value(): Reply | typeof OPENED | undefined {
    const buffer = this.#buffer;
    const { bytes, pos, end } = buffer;
    if (pos === end) return undefined;
    const frequent = frequentAt(bytes, pos, end);
    if (frequent !== undefined) {
      buffer.pos = pos + frequent.length + 3;
      return frequent;
    }
    const lineEnd = this.#lineEnd(pos + 1);
    if (lineEnd < 0) return undefined;
    const mark = bytes[pos] as number;
    if (mark === DOLLAR || mark === VERBATIM || mark === BLOB_ERROR) return this.#bulk(lineEnd);
    buffer.pos = lineEnd + 2;
    switch (mark) {
      case PLUS:
        return bytes.toString("latin1", pos + 1, lineEnd);
      case MINUS:
        return new ErrorReply(bytes.toString("utf8", pos + 1, lineEnd));
      case COLON:
        return this.#integer(pos + 1, lineEnd);
      case STAR:
      case TILDE:
        return this.#open("array", this.#integer(pos + 1, lineEnd), 1);
      case GREATER:
        return this.#open("push", this.#integer(pos + 1, lineEnd), 1);
      case PERCENT:
        return this.#open("array", this.#integer(pos + 1, lineEnd), 2);
      case PIPE:
        return this.#open("attribute", this.#integer(pos + 1, lineEnd), 2);
      case UNDERSCORE:
        return null;
      case HASH:
        return bytes[pos + 1] === 0x74;
      case COMMA:
        return doubleOf(bytes.toString("latin1", pos + 1, lineEnd));
      case PAREN:
        return this.#big(pos + 1, lineEnd);
      default:
        buffer.pos = pos;
        throw this.#error(`a reply that begins with byte ${mark}`);
    }
  }

  #open(kind: Frame["kind"], count: number | bigint, per: number): Reply | typeof OPENED {
    if (count === -1) return null;
    if (typeof count !== "number" || count < 0) throw this.#error(`${count} items`);
    if (count === 0 && kind === "attribute") return OPENED;
    if (count === 0) return kind === "push" ? new PushReply([]) : [];
    if (this.#frames.length >= DEEPEST) throw this.#error(`more than ${DEEPEST} levels`);
    this.#frames.push({ items: [], missing: count * per, kind });
    return OPENED;
  }

  #bulk(lineEnd: number): Reply | undefined {
    const buffer = this.#buffer;
    const { bytes, pos } = buffer;
    const length = this.#integer(pos + 1, lineEnd);
    const from = lineEnd + 2;
    if (length === -1) {
      buffer.pos = from;
      return null;
    }
    if (typeof length !== "number" || length < 0) throw this.#error(`a length of ${length}`);
    const to = from + length;
    if (to + 2 > buffer.end) {
      buffer.want = to + 2 - buffer.start;
      return undefined;
    }
    if (bytes[to] !== CR || bytes[to + 1] !== LF)
      throw this.#error("a bulk string of wrong length");
    buffer.pos = to + 2;
    if (bytes[pos] === BLOB_ERROR) return new ErrorReply(bytes.toString("utf8", from, to));
    return bytes.subarray(bytes[pos] === VERBATIM ? Math.min(from + 4, to) : from, to);
  }

  /** Where the line that contains `from` ends, or -1 if it has not ended yet. */
  #lineEnd(from: number): number {
    const { bytes, end, pos } = this.#buffer;
    const at = bytes.indexOf(CR, from);
    if (at >= 0 && at + 1 < end) {
      if (bytes[at + 1] !== LF) throw this.#error("a line that does not end in CR LF");
      return at;
    }
    if (end - pos > LONGEST_LINE) throw this.#error("a line without end");
    return -1;
  }

  #integer(from: number, to: number): number | bigint {
    const { bytes } = this.#buffer;
    let at = from;
    const negative = bytes[at] === MINUS;
    if (negative || bytes[at] === PLUS) at++;
    if (at === to) throw this.#error("a number expected");
    if (to - at > 15) return this.#big(from, to);
    let value = 0;
    for (; at < to; at++) {
      const digit = (bytes[at] as number) - ZERO;
      if (digit < 0 || digit > 9) throw this.#error("a number expected");
      value = value * 10 + digit;
    }
    return negative ? -value : value;
  }

  #big(from: number, to: number): bigint {
    const text = this.#buffer.bytes.toString("latin1", from, to);
    if (!/^[+-]?\d+$/.test(text)) throw this.#error("a number expected");
    return BigInt(text.startsWith("+") ? text.slice(1) : text);
  }

  #error(problem: string): RespFormatError {
    return new RespFormatError(this.#buffer.offset, problem);
  }
}

function doubleOf(text: string): number {
  if (text === "inf") return Number.POSITIVE_INFINITY;
  if (text === "-inf") return Number.NEGATIVE_INFINITY;
  return text === "nan" ? Number.NaN : Number(text);
}

const OPENED = Symbol("opened");
const DEEPEST = 64;
const LONGEST_LINE = 64 * 1024;
const ZERO = 0x30;
const CR = 0x0d;
const LF = 0x0a;
const PLUS = 0x2b;
const MINUS = 0x2d;
const COLON = 0x3a;
const DOLLAR = 0x24;
const STAR = 0x2a;
const UNDERSCORE = 0x5f;
const HASH = 0x23;
const COMMA = 0x2c;
const PAREN = 0x28;
const BLOB_ERROR = 0x21;
const VERBATIM = 0x3d;
const PERCENT = 0x25;
const TILDE = 0x7e;
const PIPE = 0x7c;
const GREATER = 0x3e;

/** The most frequent replies of a transaction, recognised without searching for the end of their line. */
function frequentAt(bytes: Buffer, at: number, end: number): "OK" | "QUEUED" | undefined {
  if (at >= end || bytes[at] !== PLUS) return undefined;
  const queued = bytes[at + 1] === QUEUED_LINE[1];
  const line = queued ? QUEUED_LINE : OK_LINE;
  if (at + line.length > end) return undefined;
  for (let i = 1; i < line.length; i++) if (bytes[at + i] !== line[i]) return undefined;
  return queued ? "QUEUED" : "OK";
}

const OK_LINE = Buffer.from("+OK\r\n");
const QUEUED_LINE = Buffer.from("+QUEUED\r\n");
