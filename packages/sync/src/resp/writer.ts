/**
 * Builds commands in RESP. Small arguments are copied into one growing page. Large ones are passed on
 * unchanged, so that a batch needs few writes and no value is copied twice.
 */
import { DOLLAR, LONGEST_HEAD, type Page, PagePool, STAR } from "./page.ts";

/** An argument of a command. Numbers are written in decimal. */
export type Argument = Buffer | string | number | bigint;

/** Arguments of at least this size are not copied. */
const LARGE = 16 * 1024;
/** Up to this size a loop is faster than a call into native code. */
const SHORT = 48;

/** Collects commands until `take`. */
export class RespWriter {
  readonly #pool: PagePool;
  /** All pages since the last `release`. */
  readonly #pages: Page[] = [];
  #page: Page;
  #from = 0;
  #full: Buffer[] = [];
  #size = 0;

  constructor(pool: PagePool = new PagePool()) {
    this.#pool = pool;
    this.#page = pool.take(0);
    this.#pages.push(this.#page);
  }

  /** The number of bytes to `take`. */
  get size(): number {
    return this.#size + this.#page.at - this.#from;
  }

  /** Adds one command. */
  command(argv: readonly Argument[]): void {
    this.header(argv.length);
    for (const argument of argv) this.argument(argument);
  }

  /** Starts a command; as many arguments must follow. */
  header(count: number): void {
    this.page(LONGEST_HEAD).head(STAR, count);
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
    if (length < LARGE) {
      this.page(LONGEST_HEAD + length).bulk(bytes, start, end);
      return;
    }
    this.page(LONGEST_HEAD).head(DOLLAR, length);
    this.#pass(bytes.subarray(start, end));
    this.#page.crlf();
  }

  /** For hot paths: the page with room for `bytes`, and a CR LF after them, to which the caller adds RESP. */
  page(bytes: number): Page {
    if (this.#page.room < bytes + 2) this.#turn(bytes + 2);
    return this.#page;
  }

  /** Adds bytes that are already RESP, such as `WireCommand.raw`. */
  raw(bytes: Buffer): void {
    const { length } = bytes;
    if (length < LARGE) this.page(length).copy(bytes, 0, length);
    else this.#pass(bytes);
  }

  /** All bytes since the last call, for one write. Empty if there are none. */
  take(): Buffer[] {
    this.#seal();
    const taken = this.#full;
    this.#full = [];
    this.#size = 0;
    return taken;
  }

  /** Gives the pages back to the pool. The writer and the bytes that it returned must not be used after that. */
  release(): void {
    for (const page of this.#pages.splice(0)) this.#pool.give(page);
  }

  #string(text: string): void {
    if (text.length <= SHORT && this.#ascii(text)) return;
    const length = Buffer.byteLength(text);
    if (length >= LARGE) {
      this.range(Buffer.from(text), 0, length);
      return;
    }
    this.page(LONGEST_HEAD + length).string(text);
  }

  /** Adds a short string byte by byte. Returns false, with nothing added, if it is not ASCII. */
  #ascii(text: string): boolean {
    const { length } = text;
    const page = this.page(LONGEST_HEAD + length);
    const before = page.at;
    page.head(DOLLAR, length);
    const { bytes } = page;
    let { at } = page;
    for (let i = 0; i < length; i++) {
      const code = text.charCodeAt(i);
      if (code > 0x7f) {
        page.at = before;
        return false;
      }
      bytes[at++] = code;
    }
    page.at = at;
    page.crlf();
    return true;
  }

  #turn(bytes: number): void {
    this.#seal();
    this.#page = this.#pool.take(bytes);
    this.#pages.push(this.#page);
    this.#from = 0;
  }

  /** Queues external bytes after those of the page. */
  #pass(bytes: Buffer): void {
    this.#seal();
    this.#full.push(bytes);
    this.#size += bytes.length;
  }

  #seal(): void {
    const { bytes, at } = this.#page;
    if (at === this.#from) return;
    this.#full.push(bytes.subarray(this.#from, at));
    this.#size += at - this.#from;
    this.#from = at;
  }
}
