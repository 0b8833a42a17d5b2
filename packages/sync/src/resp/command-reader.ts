/**
 * Reads the commands of a replication stream or an AOF file: RESP arrays of bulk strings.
 *
 *   *3\r\n $3\r\n SET\r\n $1\r\n k\r\n $1\r\n v\r\n
 *
 * `push` a chunk, then call `next` until it returns undefined. A source that lost its own master may send
 * stray newlines between commands; they belong to no command and do not count towards the replication
 * offset.
 */
import { ChunkBuffer } from "../chunk-buffer.ts";
import { RespFormatError } from "../errors.ts";

/** A command with its bytes on the wire. */
export class WireCommand {
  /** The name and its arguments: views of the chunks. */
  readonly argv: readonly Buffer[];
  /** The command exactly as it was received. The replication offset grows by its length. */
  readonly raw: Buffer;

  constructor(argv: readonly Buffer[], raw: Buffer) {
    this.argv = argv;
    this.raw = raw;
  }
}

/** Bounds of a command; defaults are those of Redis. */
export interface CommandReaderOptions {
  /** The maximum number of arguments of one command. @default 1048576 */
  readonly maxArguments?: number;
  /** The maximum size of an argument in bytes. @default 536870912 */
  readonly maxArgumentBytes?: number;
  /** Skip lines that begin with "#", as in AOF files (`#TS:1628217470`). @default false */
  readonly annotations?: boolean;
}

/** Reads whole commands from chunks of any size. */
export class CommandReader {
  readonly #buffer = new ChunkBuffer();
  readonly #maxArguments: number;
  readonly #maxArgumentBytes: number;
  readonly #annotations: boolean;
  /** The number of arguments of the current command still to come; -1 before its header. */
  #missing = -1;
  /** Start and end of the arguments read so far, relative to the command's start. */
  #places: number[] = [];
  #strayBytes = 0;

  constructor(options: CommandReaderOptions = {}) {
    this.#maxArguments = options.maxArguments ?? 1 << 20;
    this.#maxArgumentBytes = options.maxArgumentBytes ?? 512 * 1024 * 1024;
    this.#annotations = options.annotations ?? false;
  }

  /** How many bytes of the input belong to commands that `next` has returned. */
  get commandBytes(): number {
    return this.#buffer.base + this.#buffer.start - this.#strayBytes;
  }

  /** The bytes of the input before the first incomplete command, stray newlines included. */
  get offset(): number {
    return this.#buffer.base + this.#buffer.start;
  }

  /** Whether the input so far ends in the middle of a command. */
  get partial(): boolean {
    return this.#buffer.start < this.#buffer.end;
  }

  push(chunk: Buffer): void {
    this.#buffer.append(chunk);
  }

  /** The next command, or undefined if it is not complete yet. Throws RespFormatError. */
  next(): WireCommand | undefined {
    const buffer = this.#buffer;
    if (buffer.end - buffer.start < buffer.want) return undefined;
    if (this.#missing < 0 && !this.#header()) return undefined;
    while (this.#missing > 0) {
      if (!this.#argument()) return undefined;
    }
    return this.#finish();
  }

  #header(): boolean {
    const buffer = this.#buffer;
    const { bytes, end } = buffer;
    let at = buffer.start;
    for (; at < end; at++) {
      if (bytes[at] === LF || bytes[at] === CR) continue;
      if (!this.#annotations || bytes[at] !== SHARP) break;
      const newline = bytes.indexOf(LF, at);
      if (newline < 0 || newline >= end) {
        if (end - at > LONGEST_ANNOTATION) throw this.#error("an annotation without end");
        break;
      }
      at = newline;
    }
    this.#strayBytes += at - buffer.start;
    buffer.start = at;
    buffer.pos = at;
    if (at === end || (this.#annotations && bytes[at] === SHARP)) return false;
    const count = this.#number(STAR, this.#maxArguments);
    if (count < 0) return false;
    if (count === 0) throw this.#error("an empty command");
    this.#missing = count;
    this.#places.length = 0;
    return true;
  }

  #argument(): boolean {
    const buffer = this.#buffer;
    const before = buffer.pos;
    const length = this.#number(DOLLAR, this.#maxArgumentBytes);
    if (length < 0) return false;
    const from = buffer.pos;
    const to = from + length;
    if (to + 2 > buffer.end) {
      buffer.pos = before;
      buffer.want = to + 2 - buffer.start;
      return false;
    }
    if (buffer.bytes[to] !== CR || buffer.bytes[to + 1] !== LF) {
      throw this.#error("an argument that does not end where its length says");
    }
    this.#places.push(from - buffer.start, to - buffer.start);
    buffer.pos = to + 2;
    this.#missing--;
    return true;
  }

  #finish(): WireCommand {
    const buffer = this.#buffer;
    const { bytes, start } = buffer;
    const places = this.#places;
    const argv: Buffer[] = new Array(places.length / 2);
    for (let i = 0; i < argv.length; i++) {
      const from = places[2 * i] as number;
      const to = places[2 * i + 1] as number;
      argv[i] = bytes.subarray(start + from, start + to);
    }
    const raw = bytes.subarray(start, buffer.pos);
    buffer.start = buffer.pos;
    buffer.want = 0;
    this.#missing = -1;
    return new WireCommand(argv, raw);
  }

  /** Reads `<mark>digits\r\n`; returns -1 if it is not complete, with `pos` unchanged. */
  #number(mark: number, max: number): number {
    const buffer = this.#buffer;
    const { bytes, end } = buffer;
    let at = buffer.pos;
    if (at === end) return -1;
    if (bytes[at] !== mark) {
      throw this.#error(`"${String.fromCharCode(mark)}" expected, got byte ${bytes[at]}`);
    }
    at++;
    const digits = at;
    let value = 0;
    for (; at < end; at++) {
      const byte = bytes[at] as number;
      if (byte < ZERO || byte > NINE) break;
      value = value * 10 + (byte - ZERO);
      if (value > max) throw this.#error(`a length above ${max}`);
    }
    if (at < end && (bytes[at] !== CR || at === digits)) throw this.#error("a length expected");
    if (at + 1 >= end) return -1;
    if (bytes[at + 1] !== LF) throw this.#error("a line that does not end in CR LF");
    buffer.pos = at + 2;
    return value;
  }

  #error(problem: string): RespFormatError {
    return new RespFormatError(this.#buffer.offset, problem);
  }

  /** The bytes after the last complete command, which the caller takes over. */
  takeRest(): Buffer {
    this.#buffer.pos = this.#buffer.start;
    this.#missing = -1;
    return this.#buffer.take();
  }
}

const LONGEST_ANNOTATION = 1024;
const SHARP = 0x23;
const STAR = 0x2a;
const DOLLAR = 0x24;
const CR = 0x0d;
const LF = 0x0a;
const ZERO = 0x30;
const NINE = 0x39;
