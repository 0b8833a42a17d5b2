/**
 * Builds commands in RESP. Small arguments are copied into one growing page. Large ones are passed on
 * unchanged, so that a batch needs few writes and no value is copied twice.
 */

/** An argument of a command. Numbers are written in decimal. */
export type Argument = Buffer | string | number | bigint;

/** A raw value inside a larger buffer. RdbKey is one. */
export interface RawSlice {
  readonly bytes: Buffer;
  readonly rawStart: number;
  readonly rawEnd: number;
}

const PAGE = 64 * 1024;
/** Arguments of at least this size are not copied. */
const LARGE = 16 * 1024;
/** Up to this size a loop is faster than a call into native code. */
const SHORT = 48;
const LONGEST_HEAD = 32;

/** Collects commands until `take`. */
export class RespWriter {
  #page: Buffer = Buffer.allocUnsafeSlow(PAGE);
  #from = 0;
  #at = 0;
  #full: Buffer[] = [];
  #size = 0;

  /** The number of bytes to `take`. */
  get size(): number {
    return this.#size + this.#at - this.#from;
  }

  /** Adds one command. */
  command(argv: readonly Argument[]): void {
    this.header(argv.length);
    for (const argument of argv) this.argument(argument);
  }

  /** Starts a command; as many arguments must follow. */
  header(count: number): void {
    this.#room(LONGEST_HEAD);
    this.#head(STAR, count);
  }

  /** Adds an argument to the command that `header` started. */
  argument(argument: Argument): void {
    if (typeof argument === "string") this.#string(argument);
    else if (typeof argument !== "object") this.#string(String(argument));
    else this.range(argument, 0, argument.length);
  }

  /** Adds the bytes from `start` to `end` as an argument, without making a view of them. */
  range(bytes: Buffer, start: number, end: number): void {
    const length = end - start;
    this.#room(LONGEST_HEAD + (length < LARGE ? length : 0));
    this.#head(DOLLAR, length);
    if (length <= SHORT) this.#short(bytes, start, end);
    else if (length < LARGE) this.#at += bytes.copy(this.#page, this.#at, start, end);
    else this.#pass(bytes.subarray(start, end));
    this.#crlf();
  }

  /** Adds an argument that the caller fills in: `length` bytes of `page` from the returned offset. */
  reserve(length: number): number {
    this.#room(LONGEST_HEAD + length);
    this.#head(DOLLAR, length);
    const at = this.#at;
    this.#at += length;
    this.#crlf();
    return at;
  }

  /** Copies a raw value of a snapshot to an offset inside the last argument of `reserve`. */
  place({ bytes, rawStart, rawEnd }: RawSlice, at: number): void {
    if (rawEnd - rawStart > SHORT) {
      bytes.copy(this.#page, at, rawStart, rawEnd);
      return;
    }
    const page = this.#page;
    let to = at;
    for (let i = rawStart; i < rawEnd; i++) page[to++] = bytes[i] as number;
  }

  /** The buffer with the last argument of `reserve`. */
  get page(): Buffer {
    return this.#page;
  }

  /** Adds bytes that are already RESP, such as `WireCommand.raw`. */
  raw(bytes: Buffer): void {
    if (bytes.length >= LARGE) {
      this.#pass(bytes);
      return;
    }
    this.#room(bytes.length);
    if (bytes.length <= SHORT) this.#short(bytes, 0, bytes.length);
    else this.#at += bytes.copy(this.#page, this.#at);
  }

  /** All bytes since the last call, for one write. Empty if there are none. */
  take(): Buffer[] {
    this.#seal();
    const taken = this.#full;
    this.#full = [];
    this.#size = 0;
    return taken;
  }

  #string(text: string): void {
    if (text.length <= SHORT && this.#ascii(text)) return;
    const length = Buffer.byteLength(text);
    if (length >= LARGE) {
      this.range(Buffer.from(text), 0, length);
      return;
    }
    this.#room(LONGEST_HEAD + length);
    this.#head(DOLLAR, length);
    this.#at += this.#page.write(text, this.#at);
    this.#crlf();
  }

  /** Adds a short string byte by byte. Returns false, with nothing added, if it is not ASCII. */
  #ascii(text: string): boolean {
    const { length } = text;
    this.#room(LONGEST_HEAD + length);
    const before = this.#at;
    this.#head(DOLLAR, length);
    const page = this.#page;
    let at = this.#at;
    for (let i = 0; i < length; i++) {
      const code = text.charCodeAt(i);
      if (code > 0x7f) {
        this.#at = before;
        return false;
      }
      page[at++] = code;
    }
    this.#at = at;
    this.#crlf();
    return true;
  }

  #short(bytes: Buffer, start: number, end: number): void {
    const page = this.#page;
    let at = this.#at;
    for (let i = start; i < end; i++) page[at++] = bytes[i] as number;
    this.#at = at;
  }

  #head(mark: number, value: number): void {
    const page = this.#page;
    let at = this.#at;
    page[at++] = mark;
    if (value < 10) page[at++] = ZERO + value;
    else if (value < 100) {
      const tens = (value / 10) | 0;
      page[at++] = ZERO + tens;
      page[at++] = ZERO + value - 10 * tens;
    } else at += page.write(String(value), at, "latin1");
    page[at++] = CR;
    page[at++] = LF;
    this.#at = at;
  }

  #crlf(): void {
    this.#page[this.#at++] = CR;
    this.#page[this.#at++] = LF;
  }

  /** Makes sure that `bytes`, with the CR LF after them, fit into the page. */
  #room(bytes: number): void {
    if (this.#at + bytes + 2 <= this.#page.length) return;
    this.#seal();
    this.#page = Buffer.allocUnsafeSlow(Math.max(PAGE, bytes + 2));
    this.#from = 0;
    this.#at = 0;
  }

  /** Queues external bytes after those of the page. */
  #pass(bytes: Buffer): void {
    this.#seal();
    this.#full.push(bytes);
    this.#size += bytes.length;
  }

  #seal(): void {
    if (this.#at === this.#from) return;
    this.#full.push(this.#page.subarray(this.#from, this.#at));
    this.#size += this.#at - this.#from;
    this.#from = this.#at;
  }
}

const ZERO = 0x30;
const STAR = 0x2a;
const DOLLAR = 0x24;
const CR = 0x0d;
const LF = 0x0a;
