/**
 * A decoded value is a sequence of parts of bounded size: one part for a small value, many for a large
 * one, always in the order of the file. Code that handles parts (commands, digest, JSON) handles values of
 * every size in the same way.
 *
 *   string   string*                                    bytes in order
 *   list     list*                                      elements head to tail
 *   set      set*                                       members, unordered
 *   zset     zset*                                      members with scores, unordered
 *   hash     hash*                                      fields, values, and expiry of fields
 *   stream   entries* info ( group pending* consumer* ( owned* )* nacked* )* idempotency?
 *   array    array*                                     index and value (Redis 8.8)
 *   module   module*                                    raw bytes; only RESTORE can write them
 */

/** The type of a value, as the TYPE command names it. */
export type ValueType = "string" | "list" | "set" | "zset" | "hash" | "stream" | "array" | "module";

/** A part of a decoded value. */
export type ValuePart =
  | StringPart
  | ListPart
  | SetPart
  | ZsetPart
  | HashPart
  | StreamPart
  | ArrayPart
  | ModulePart;

/** Bytes of a string, in order. */
export interface StringPart {
  readonly type: "string";
  readonly bytes: Buffer;
}

/** Elements of a list, head to tail. */
export interface ListPart {
  readonly type: "list";
  readonly elements: readonly Buffer[];
}

/** Members of a set. */
export interface SetPart {
  readonly type: "set";
  readonly members: readonly Buffer[];
}

/** Members of a sorted set, `scores[i]` belongs to `members[i]`. */
export interface ZsetPart {
  readonly type: "zset";
  readonly members: readonly Buffer[];
  readonly scores: readonly number[];
}

/** Fields of a hash, `values[i]` belongs to `fields[i]`. */
export interface HashPart {
  readonly type: "hash";
  readonly fields: readonly Buffer[];
  readonly values: readonly Buffer[];
  /** Absolute expiry of each field in milliseconds, 0 if none; undefined if no field of this part expires. */
  readonly expiresAtMs: readonly number[] | undefined;
}

/** Elements of an array (Redis 8.8); `values[i]` is at `indexes[i]`. */
export interface ArrayPart {
  readonly type: "array";
  readonly indexes: readonly bigint[];
  readonly values: readonly Buffer[];
  /** The index of the next append, if the array has such a cursor. */
  readonly insertIndex: bigint | undefined;
}

/** Raw bytes of a module's value. */
export interface ModulePart {
  readonly type: "module";
  /** The nine-character name of the module's type. */
  readonly module: string;
  readonly bytes: Buffer;
}

/** The id of a stream entry. */
export interface StreamId {
  readonly ms: bigint;
  readonly seq: bigint;
}

/** One entry of a stream. */
export interface StreamEntry {
  readonly id: StreamId;
  /** Field, value, field, value. */
  readonly fields: readonly Buffer[];
}

/** One pending entry of a group. */
export interface PendingEntry {
  readonly id: StreamId;
  readonly deliveredAtMs: number;
  readonly deliveries: number;
}

/** A part of a stream. */
export type StreamPart =
  | { readonly type: "stream"; readonly piece: "entries"; readonly entries: readonly StreamEntry[] }
  | StreamInfo
  | StreamGroup
  | {
      readonly type: "stream";
      readonly piece: "pending";
      /** Pending entries of the last group. */
      readonly pending: readonly PendingEntry[];
    }
  | StreamConsumer
  | {
      readonly type: "stream";
      readonly piece: "owned";
      /** Pending ids that belong to the last consumer. */
      readonly ids: readonly StreamId[];
    }
  | {
      readonly type: "stream";
      readonly piece: "nacked";
      /** Pending ids of the last group that belong to no consumer (Redis 8.8). */
      readonly ids: readonly StreamId[];
    }
  | StreamIdempotency;

/** The counters of a stream, after its last entry. */
export interface StreamInfo {
  readonly type: "stream";
  readonly piece: "info";
  readonly length: number;
  readonly lastId: StreamId;
  /** undefined before Redis 7.0 (stream v1). */
  readonly added:
    | {
        readonly firstId: StreamId;
        readonly maxDeletedId: StreamId;
        readonly entriesAdded: bigint;
      }
    | undefined;
}

/** A consumer group begins. */
export interface StreamGroup {
  readonly type: "stream";
  readonly piece: "group";
  readonly name: Buffer;
  readonly lastId: StreamId;
  /** undefined if unknown, or before Redis 7.0. */
  readonly entriesRead: bigint | undefined;
}

/** A consumer of the last group. */
export interface StreamConsumer {
  readonly type: "stream";
  readonly piece: "consumer";
  readonly name: Buffer;
  readonly seenAtMs: number;
  /** undefined if never active, or before Redis 7.2. */
  readonly activeAtMs: number | undefined;
}

/** The idempotent producers of a stream (Redis 8.6). */
export interface StreamIdempotency {
  readonly type: "stream";
  readonly piece: "idempotency";
  readonly durationS: number;
  readonly maxEntries: number;
  /** The number of producers, and of their entries that are remembered. */
  readonly producers: number;
  readonly entries: number;
  readonly added: bigint;
  readonly duplicates: bigint;
}
