/**
 * Builds MSET commands from single strings. The number of arguments precedes them and is known only at the end, so
 * every command leaves room for its head, which is written last.
 *
 *   page   | finished commands | room | $3 key $5 value $3 key ... |
 *          from                open   body                         at
 */
import { LONGEST_HEAD, Page, type PagePool, STAR } from "./page.ts";

/** A string and its key, both inside larger buffers. */
export interface StringPair {
  readonly keyBytes: Buffer;
  readonly keyStart: number;
  readonly keyEnd: number;
  readonly bytes: Buffer;
  readonly textStart: number;
  readonly rawEnd: number;
}

/** MSET saves the server most of the work per command; longer ones save no more. */
const MOST_PAIRS = 50;
const MOST_BYTES = 16 * 1024;
const NAME = Buffer.from("$4\r\nMSET\r\n");
/** The head of an MSET with the maximum number of pairs. */
const HEAD_BYTES = `*${1 + 2 * MOST_PAIRS}\r\n`.length + NAME.length;

/** Strings of at least this size, with their key, are not for MSET. */
export const TOO_LONG_FOR_MSET: number = MOST_BYTES;

/** Collects strings until `take`. */
export class MsetWriter {
  /** How many strings there are. */
  pairs = 0;
  #commands = 0;
  readonly #pool: PagePool;
  /** All pages since the last `release`. */
  readonly #pages: Page[] = [];
  #page: Page = NONE;
  #from = 0;
  #body = 0;
  /** The strings of the command that is not finished. */
  #open = 0;
  #full: Buffer[] = [];
  #size = 0;

  constructor(pool: PagePool) {
    this.#pool = pool;
  }

  /** The number of bytes so far. */
  get size(): number {
    return this.#size + this.#page.at - this.#from;
  }

  /** Adds a string that is shorter than TOO_LONG_FOR_MSET. */
  add({ keyBytes, keyStart, keyEnd, bytes, textStart, rawEnd }: StringPair): void {
    const most = HEAD_BYTES + keyEnd - keyStart + rawEnd - textStart + 2 * LONGEST_HEAD;
    if (this.#page.room < most) this.#turn(most);
    const page = this.#page;
    if (this.#open === 0) {
      this.#body = page.at + HEAD_BYTES;
      page.at = this.#body;
    }
    page.bulk(keyBytes, keyStart, keyEnd);
    page.bulk(bytes, textStart, rawEnd);
    this.#open += 1;
    this.pairs += 1;
    if (this.#open === MOST_PAIRS || page.at - this.#body >= MOST_BYTES) this.#finish();
  }

  /** All commands since the last call, and their number. */
  take(): { readonly commands: number; readonly pieces: readonly Buffer[] } {
    this.#finish();
    this.#seal(this.#page.at);
    const taken = { commands: this.#commands, pieces: this.#full };
    this.#full = [];
    this.#size = 0;
    this.#commands = 0;
    return taken;
  }

  /** Writes the head of the open command, directly before its strings. */
  #finish(): void {
    if (this.#open === 0) return;
    const count = 1 + 2 * this.#open;
    const gap = count < 10 ? 2 : count < 100 ? 1 : 0;
    const room = this.#body - HEAD_BYTES;
    if (gap > 0) {
      this.#seal(room);
      this.#from = room + gap;
    }
    const page = this.#page;
    const end = page.at;
    page.at = room + gap;
    page.head(STAR, count);
    page.constant(NAME);
    page.at = end;
    this.#open = 0;
    this.#commands += 1;
  }

  /** Gives the pages back to the pool. The writer and the bytes that it returned must not be used after that. */
  release(): void {
    for (const page of this.#pages.splice(0)) this.#pool.give(page);
  }

  #turn(bytes: number): void {
    this.#finish();
    this.#seal(this.#page.at);
    this.#page = this.#pool.take(bytes);
    this.#pages.push(this.#page);
    this.#from = 0;
  }

  /** Queues the bytes of the page up to `end`. */
  #seal(end: number): void {
    if (end === this.#from) return;
    this.#full.push(this.#page.bytes.subarray(this.#from, end));
    this.#size += end - this.#from;
    this.#from = end;
  }
}

const NONE = new Page(0);
