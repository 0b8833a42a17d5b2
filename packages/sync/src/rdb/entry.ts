/**
 * The entries of an RDB, in the order in which the reader yields them:
 *
 *   header, aux*, function*, ( select, resize?, ( slot? key | begin part* end )* )*, eof
 *
 * A value within `maxRawBytes` and `maxRawElements` comes as one RdbKey with its raw bytes. RESTORE accepts
 * raw bytes, and the caller can decode them with `decodeValue`. A larger value
 * comes as `begin`, decoded parts of bounded size, and `end`, so that memory does not depend on the
 * data.
 *
 * Buffers of entries are views of the chunks that the reader was given. They stay valid as long as the
 * caller does not overwrite those chunks.
 */
import type { ValuePart, ValueType } from "../value/part.ts";

/** The family that defines the type and opcode numbers of an RDB. Valkey up to 8 writes the same as Redis. */
export type RdbFamily = "redis" | "valkey";

/** One entry of an RDB. */
export type RdbEntry =
  | RdbHeader
  | RdbAux
  | RdbSelect
  | RdbResize
  | RdbSlot
  | RdbSlotImport
  | RdbFunction
  | RdbModuleAux
  | RdbKey
  | RdbBegin
  | RdbPart
  | RdbEnd
  | RdbEof;

/** The magic string and version; always first. */
export interface RdbHeader {
  readonly kind: "header";
  readonly family: RdbFamily;
  readonly version: number;
}

/** A named field of the server, such as `redis-ver`, `repl-id`, `repl-offset`, `lua`. */
export interface RdbAux {
  readonly kind: "aux";
  readonly name: string;
  readonly value: Buffer;
}

/** The keys that follow are in this database. */
export interface RdbSelect {
  readonly kind: "select";
  readonly db: number;
}

/** How many keys the database has, and how many of them expire. Only a hint. */
export interface RdbResize {
  readonly kind: "resize";
  readonly keys: number;
  readonly expires: number;
}

/** The keys that follow are in this Cluster slot. */
export interface RdbSlot {
  readonly kind: "slot";
  readonly slot: number;
  readonly keys: number;
  readonly expires: number;
}

/** Valkey 9: slots were being imported when the snapshot was taken. */
export interface RdbSlotImport {
  readonly kind: "slot-import";
  readonly job: Buffer;
  /** First and last slot of each range. */
  readonly ranges: readonly (readonly [number, number])[];
}

/** The source of a function library, for FUNCTION LOAD REPLACE. */
export interface RdbFunction {
  readonly kind: "function";
  readonly code: Buffer;
}

/** Data of a module that belongs to no key. No public command restores it. */
export interface RdbModuleAux {
  readonly kind: "module-aux";
  /** The nine-character name of the module's type. */
  readonly module: string;
  /** 1: before the keys, 2: after them. */
  readonly when: number;
  /** Its size in the file. */
  readonly bytes: number;
}

/** The attributes of a key besides its value. */
export interface RdbKeyAttributes {
  readonly db: number;
  readonly key: Buffer;
  /** The RDB type id. Its meaning depends on `family`. */
  readonly type: number;
  readonly family: RdbFamily;
  readonly valueType: ValueType;
  /** Absolute, in milliseconds; -1 if the key does not expire. */
  readonly expiresAtMs: number;
  /** Seconds since the last access (LRU); -1 if unknown. */
  readonly idleS: number;
  /** Access frequency (LFU), 0 to 255; -1 if unknown. */
  readonly freq: number;
  /** The KEY_META block of Redis 8.6 and later with its opcode; it precedes the type byte in a payload. */
  readonly meta: Buffer | undefined;
  /** The offset of the key's type byte in the file. */
  readonly offset: number;
}

/** The offsets of a whole key, from which an RdbKey is made. */
export interface RdbKeyPlace {
  readonly db: number;
  readonly type: number;
  readonly family: RdbFamily;
  readonly valueType: ValueType;
  readonly offset: number;
}

/**
 * A key with its whole value. A class with offsets and lazy views, because making two Buffers per key
 * costs more than finding them. A hot path may read `bytes` between the offsets directly.
 */
export class RdbKey implements RdbKeyAttributes {
  readonly kind = "key" as const;
  readonly db: number;
  readonly type: number;
  readonly family: RdbFamily;
  readonly valueType: ValueType;
  readonly offset: number;
  expiresAtMs = -1;
  idleS = -1;
  freq = -1;
  meta: Buffer | undefined = undefined;
  /** Holds the key's name between `keyStart` and `keyEnd`, decoded. */
  keyBytes: Buffer = EMPTY;
  keyStart = 0;
  keyEnd = 0;
  /** Holds the raw value between `rawStart` and `rawEnd`, as in the file. */
  bytes: Buffer = EMPTY;
  rawStart = 0;
  rawEnd = 0;
  /** For writers: where the text of a plain string begins. */
  textStart = 0;
  /** The size of the value's strings after decompression. */
  decodedBytes = 0;

  constructor(place: RdbKeyPlace) {
    this.db = place.db;
    this.type = place.type;
    this.family = place.family;
    this.valueType = place.valueType;
    this.offset = place.offset;
  }

  /** The key's name. */
  get key(): Buffer {
    return this.keyBytes.subarray(this.keyStart, this.keyEnd);
  }

  /** The value as in the file, without its type byte, for `dumpPayload` and `decodeValue`. */
  get raw(): Buffer {
    return this.bytes.subarray(this.rawStart, this.rawEnd);
  }
}

const EMPTY = Buffer.alloc(0);

/** The start of a value that is too large to hold; parts and one `end` follow. */
export interface RdbBegin extends RdbKeyAttributes {
  readonly kind: "begin";
  /** The length of a string in bytes, or the number of elements of a collection if the file states it in advance. */
  readonly size: number | undefined;
}

/** A decoded part of the value that began. */
export interface RdbPart {
  readonly kind: "part";
  readonly part: ValuePart;
}

/** The value is complete. */
export interface RdbEnd {
  readonly kind: "end";
  /** The size of the raw value in the file. */
  readonly bytes: number;
  /** How many elements its parts had, or bytes of a string. */
  readonly elements: number;
  /** The size of the value's strings after decompression. */
  readonly decodedBytes: number;
}

/** The RDB is complete. */
export interface RdbEof {
  readonly kind: "eof";
  /** "absent": before RDB 5, or written with `rdbchecksum no`; "skipped": the reader's `checksum` option is false. */
  readonly checksum: "verified" | "absent" | "skipped";
  /** The size of the RDB. */
  readonly bytes: number;
}
