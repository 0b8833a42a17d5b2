/**
 * Reads an RDB from chunks of any size: `push` a chunk, then call `next` until it returns undefined.
 *
 *              +--------- aux, select, function, ... --------+
 *              v                                             |
 *   header -> entry -- type byte, key --> skipping -- key ---+
 *              ^                             | too large
 *              |                             v
 *              +------ end ------------- decoding (begin, part ...)
 *              |
 *              +-- opcode 255 -> checksum -> finished
 *
 * Nothing is guessed: an unknown version, type or opcode is an error with its offset, because the length
 * of the following data is unknown. The options bound the memory, whatever sizes the file claims.
 */
import { resolveOptions } from "@ropeway/core/internal";
import { RdbChecksumError, RdbTruncatedError } from "../errors.ts";
import { bytesOf, elementsOf } from "../value/measure.ts";
import { Crc64, checksumAt } from "./crc64.ts";
import { walkDecoding } from "./decode-walk.ts";
import { type RdbBegin, type RdbEntry, type RdbFamily, RdbKey, type RdbKeyPlace } from "./entry.ts";
import { isAttribute, readInfo, skipMeta, walkModuleAux } from "./info.ts";
import { OPCODE } from "./opcode.ts";
import { type RdbReaderOptions, rdbReaderOptions } from "./options.ts";
import { MORE, RdbBuffer } from "./rdb-buffer.ts";
import { knownVersion, type Shape, shapeOf, whyUnknown } from "./shape.ts";
import { ValueSkipper } from "./skip.ts";
import type { Walk } from "./walk.ts";

/** An RdbKey whose fields may be set. */
type Mutable<T> = { -readonly [Field in keyof T]: T[Field] };

/** The fields of a new key are set one by one, as those of a reused one. */
const NOWHERE: RdbKeyPlace = { db: 0, type: 0, family: "redis", valueType: "string", offset: 0 };
const MAGIC_BYTES = 9;
const CHECKSUM_BYTES = 8;
/** Codes of at least this value are opcodes, lower ones are types. */
const FIRST_OPCODE = 100;

/** Reads the entries of one RDB. */
export class RdbReader {
  readonly #options: Required<RdbReaderOptions>;
  readonly #buffer = new RdbBuffer();
  readonly #skipper: ValueSkipper;
  readonly #crc = new Crc64();
  /** The offset up to which the checksum has been computed. */
  #summed = 0;
  #state: "header" | "entry" | "skipping" | "decoding" | "module-aux" | "finished" = "header";
  #family: RdbFamily = "redis";
  #version = 0;
  #db = 0;
  /** The current key. Between keys it collects the attributes that precede the next one. */
  #expiresAtMs = -1;
  #idleS = -1;
  #freq = -1;
  #meta: Buffer | undefined;
  #key: RdbKey | undefined;
  #spare: RdbKey | undefined;
  #shape: Shape | undefined;
  /** The value's first byte, relative to the buffer's `start`. */
  #valueAt = 0;
  #walk: Walk | undefined;
  #auxWalk: ReturnType<typeof walkModuleAux> | undefined;
  #valueOffset = 0;
  #elements = 0;
  #decodedBytes = 0;
  #emptyKeys = 0;

  /** Throws InvalidOptionError. */
  constructor(options: RdbReaderOptions = {}) {
    this.#options = resolveOptions(rdbReaderOptions, options);
    this.#buffer.maxElementBytes = this.#options.maxElementBytes;
    this.#skipper = new ValueSkipper(this.#buffer, {
      maxRawBytes: Math.min(this.#options.maxRawBytes, this.#options.maxElementBytes),
      maxRawElements: this.#options.maxRawElements,
    });
  }

  /** Whether the RDB is complete. */
  get finished(): boolean {
    return this.#state === "finished";
  }

  /** How many bytes of the RDB have been read. */
  get offset(): number {
    return this.#buffer.offset;
  }

  /** How many collections without elements were dropped, as servers do. Old servers wrote such keys. */
  get emptyKeys(): number {
    return this.#emptyKeys;
  }

  /** Gives the reader more bytes. They must not be overwritten while entries that refer to them are in use. */
  push(chunk: Buffer): void {
    this.#sum(this.#buffer.start);
    this.#buffer.append(chunk);
    this.#summed = this.#buffer.start;
  }

  /**
   * The next entry, or undefined if more bytes are needed or the RDB is finished. Throws RdbFormatError,
   * UnsupportedRdbError, ElementTooLargeError or RdbChecksumError; the reader cannot be used after that.
   */
  next(): RdbEntry | undefined {
    const buffer = this.#buffer;
    for (;;) {
      if (buffer.end - buffer.start < buffer.want) return undefined;
      buffer.want = 0;
      switch (this.#state) {
        case "header":
          return this.#header();
        case "entry": {
          const entry = this.#entry();
          if (entry !== undefined) return entry;
          break;
        }
        case "skipping": {
          const entry = this.#skip();
          if (entry !== undefined) return entry;
          break;
        }
        case "decoding":
          return this.#decode();
        case "module-aux":
          return this.#moduleAux();
        case "finished":
          return undefined;
      }
      if (buffer.want > 0) return undefined;
    }
  }

  /** Gives a key back that nobody needs any more. Its object becomes the next key, which saves an object per key. */
  reuse(key: RdbKey): void {
    this.#spare = key;
  }

  /** Marks the end of the input. Throws RdbTruncatedError unless the RDB is complete. */
  end(): void {
    if (!this.finished) throw new RdbTruncatedError(this.#buffer.base + this.#buffer.end);
  }

  /** The bytes after the end of the RDB, which the caller takes over. */
  takeRest(): Buffer {
    return this.#buffer.take();
  }

  #header(): RdbEntry | undefined {
    const buffer = this.#buffer;
    if (!buffer.skip(MAGIC_BYTES)) return undefined;
    const magic = buffer.bytes.toString("latin1", buffer.pos - MAGIC_BYTES, buffer.pos);
    const parsed = /^(?:(REDIS)(\d{4})|(VALKEY)(\d{3}))$/.exec(magic);
    buffer.pos -= MAGIC_BYTES;
    if (parsed === null) {
      throw buffer.malformed(`${JSON.stringify(magic)} is not the beginning of an RDB`);
    }
    this.#family = parsed[1] === undefined ? "valkey" : "redis";
    this.#version = Number(parsed[2] ?? parsed[4]);
    buffer.family = this.#family;
    if (!knownVersion(this.#family, this.#version)) {
      throw buffer.unsupported("version", this.#version, "Redis 1 to 15 and Valkey 80 are known");
    }
    buffer.pos += MAGIC_BYTES;
    buffer.start = buffer.pos;
    this.#state = "entry";
    return { kind: "header", family: this.#family, version: this.#version };
  }

  /** Reads the entry that begins at `start`: a key's type, or an opcode. */
  #entry(): RdbEntry | undefined {
    const buffer = this.#buffer;
    const at = buffer.start;
    if (at >= buffer.end) {
      buffer.lack(at + 1);
      return undefined;
    }
    const code = buffer.bytes[at] as number;
    buffer.pos = at + 1;
    if (code < FIRST_OPCODE) return this.#beginKey(code);
    if (code === OPCODE.EOF) return this.#eof();
    if (code === OPCODE.MODULE_AUX) {
      buffer.start = buffer.pos;
      this.#auxWalk = walkModuleAux(buffer);
      this.#state = "module-aux";
      return undefined;
    }
    const attribute = isAttribute(code, this.#family);
    const entry = attribute ? undefined : readInfo(buffer, code);
    if (attribute ? this.#attribute(code) : entry !== undefined) {
      buffer.start = buffer.pos;
      if (entry?.kind === "select") this.#db = entry.db;
    } else {
      buffer.pos = at;
    }
    return entry;
  }

  #moduleAux(): RdbEntry | undefined {
    const { value: entry, done } = (this.#auxWalk as ReturnType<typeof walkModuleAux>).next();
    if (!done) return undefined;
    this.#buffer.start = this.#buffer.pos;
    this.#state = "entry";
    return entry;
  }

  /** Reads the body of an opcode that describes the next key; returns false if bytes are missing. */
  #attribute(code: number): boolean {
    const buffer = this.#buffer;
    const { bytes, pos } = buffer;
    if (code === OPCODE.EXPIRY_MS) {
      if (!buffer.skip(8)) return false;
      this.#expiresAtMs = bytes.readInt32LE(pos + 4) * 0x1_0000_0000 + bytes.readUInt32LE(pos);
    } else if (code === OPCODE.EXPIRY_S) {
      if (!buffer.skip(4)) return false;
      this.#expiresAtMs = bytes.readInt32LE(pos) * 1000;
    } else if (code === OPCODE.FREQ) {
      if (!buffer.skip(1)) return false;
      this.#freq = bytes[pos] as number;
    } else if (code === OPCODE.IDLE) {
      const idleS = buffer.length();
      if (idleS === MORE) return false;
      this.#idleS = idleS;
    } else {
      if (!skipMeta(buffer)) return false;
      this.#meta = Buffer.from(bytes.subarray(pos - 1, buffer.pos));
    }
    return true;
  }

  #beginKey(type: number): undefined {
    const buffer = this.#buffer;
    const shape = shapeOf(this.#family, type);
    if (shape === undefined) {
      buffer.pos = buffer.start;
      throw buffer.unsupported("type", type, whyUnknown(this.#family, type));
    }
    const at = buffer.pos;
    if (!buffer.skipString()) {
      buffer.pos = buffer.start;
      return;
    }
    const key: Mutable<RdbKey> = this.#spare ?? new RdbKey(NOWHERE);
    this.#spare = undefined;
    key.db = this.#db;
    key.type = type;
    key.family = this.#family;
    key.valueType = shape.valueType;
    key.offset = buffer.base + buffer.start;
    this.#key = key;
    this.#shape = shape;
    if (buffer.isRaw) {
      // The offsets may move with the buffer until the value is complete, so they are relative until then.
      key.keyEnd = buffer.pos - buffer.start;
      key.keyStart = key.keyEnd - buffer.size;
    } else {
      buffer.pos = at;
      key.keyBytes = buffer.string() as Buffer;
      key.keyEnd = -1;
    }
    key.expiresAtMs = this.#expiresAtMs;
    key.idleS = this.#idleS;
    key.freq = this.#freq;
    key.meta = this.#meta;
    this.#valueAt = buffer.pos - buffer.start;
    this.#skipper.begin(shape, type);
    this.#state = "skipping";
  }

  #skip(): RdbEntry | undefined {
    const found = this.#skipper.step();
    if (found === "more") return undefined;
    const buffer = this.#buffer;
    const key = this.#key as RdbKey;
    const { start } = buffer;
    if (key.keyEnd < 0) {
      key.keyStart = 0;
      key.keyEnd = key.keyBytes.length;
    } else {
      key.keyBytes = buffer.bytes;
      key.keyStart += start;
      key.keyEnd += start;
    }
    this.#forgetAttributes();
    if (found === "large") return this.#beginDecoding(key);
    key.bytes = buffer.bytes;
    key.rawStart = start + this.#valueAt;
    key.rawEnd = buffer.pos;
    key.decodedBytes = buffer.decoded;
    buffer.start = buffer.pos;
    this.#state = "entry";
    if (!this.#skipper.empty) return key;
    this.#emptyKeys++;
    return undefined;
  }

  #forgetAttributes(): void {
    this.#expiresAtMs = -1;
    this.#idleS = -1;
    this.#freq = -1;
    this.#meta = undefined;
  }

  #beginDecoding(key: RdbKey): RdbBegin {
    const buffer = this.#buffer;
    const shape = this.#shape as Shape;
    const { db, type, family, valueType, expiresAtMs, idleS, freq, meta, offset } = key;
    const name = Buffer.from(key.key); // a copy, because the chunk may be freed before the value is complete
    buffer.start += this.#valueAt;
    buffer.pos = buffer.start;
    buffer.limit = Number.POSITIVE_INFINITY;
    const size = sizeOf(buffer, shape);
    this.#valueOffset = buffer.offset;
    this.#elements = 0;
    this.#decodedBytes = 0;
    this.#walk = walkDecoding({ buffer, shape, type, bounds: this.#options });
    this.#state = "decoding";
    return {
      kind: "begin",
      db,
      key: name,
      type,
      family,
      valueType,
      expiresAtMs,
      idleS,
      freq,
      meta,
      offset,
      size,
    };
  }

  #decode(): RdbEntry | undefined {
    const { value: part, done } = (this.#walk as Walk).next();
    if (!done) {
      if (part === undefined) return undefined;
      this.#elements += elementsOf(part);
      this.#decodedBytes += bytesOf(part);
      return { kind: "part", part };
    }
    const buffer = this.#buffer;
    buffer.start = buffer.pos;
    this.#walk = undefined;
    this.#state = "entry";
    const bytes = buffer.offset - this.#valueOffset;
    return { kind: "end", bytes, elements: this.#elements, decodedBytes: this.#decodedBytes };
  }

  #eof(): RdbEntry | undefined {
    const buffer = this.#buffer;
    const at = buffer.pos;
    const summed = this.#version >= 5;
    if (summed && !buffer.skip(CHECKSUM_BYTES)) {
      buffer.pos = buffer.start;
      return undefined;
    }
    this.#sum(at);
    let checksum: "verified" | "absent" | "skipped" = "absent";
    if (summed && !isZero(buffer.bytes, at)) {
      checksum = this.#options.checksum ? "verified" : "skipped";
      if (this.#options.checksum && !this.#crc.matches(buffer.bytes, at)) {
        const expected = checksumAt(buffer.bytes, at);
        throw new RdbChecksumError(buffer.base + at, expected, this.#crc.toString());
      }
    }
    buffer.start = buffer.pos;
    this.#state = "finished";
    return { kind: "eof", checksum, bytes: buffer.offset };
  }

  #sum(to: number): void {
    if (!this.#options.checksum || this.#state === "finished") return;
    this.#crc.update(this.#buffer.bytes, this.#summed, to);
    this.#summed = to;
  }
}

/** The announced size of a value: bytes of a string, elements of a collection. */
function sizeOf(buffer: RdbBuffer, shape: Shape): number | undefined {
  const at = buffer.pos;
  if (shape.layout === "string") return buffer.head() ? buffer.size : undefined;
  // The count of a quicklist is the number of its nodes.
  if (shape.layout !== "counted" || shape.packing !== undefined) return undefined;
  if (shape.earliest) buffer.skip(8);
  const count = buffer.count();
  buffer.pos = at;
  return count === MORE ? undefined : count;
}

function isZero(bytes: Buffer, at: number): boolean {
  return bytes.readInt32LE(at) === 0 && bytes.readInt32LE(at + 4) === 0;
}
