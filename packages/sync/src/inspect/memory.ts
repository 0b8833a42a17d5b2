/**
 * Estimates the memory of a value in a server from its encoding: the bytes of its strings, and the overhead of
 * Redis on 64-bit machines with jemalloc. It is good for finding large keys; expect it to be within
 * a quarter of MEMORY USAGE.
 */

import type { RdbKey } from "../rdb/entry.ts";
import { MORE, RdbBuffer } from "../rdb/rdb-buffer.ts";
import { shapeOf } from "../rdb/shape.ts";
import type { ValueType } from "../value/part.ts";

/** The entry in the database's hash table, the object, and the string header of the key. */
const PER_KEY = 24 + 16 + 8;
const PER_EXPIRY = 24;
/** The overhead of one element that is not packed: hash table entry or skip list node, with string headers. */
const PER_ELEMENT: Readonly<Record<ValueType, number>> = {
  string: 0,
  list: 32,
  set: 40,
  zset: 96,
  hash: 56,
  stream: 32,
  array: 16,
  module: 0,
};
const STRING_HEADER = 16;

/** The input of the estimate. */
export interface Measured {
  readonly keyBytes: number;
  readonly valueType: ValueType;
  readonly decodedBytes: number;
  /** Elements, or nodes of a quicklist or stream, with their own memory. 0 if the value is one string. */
  readonly loose: number;
  readonly expires: boolean;
}

/** Estimated bytes in a server. */
export function memoryOf({ keyBytes, valueType, decodedBytes, loose, expires }: Measured): number {
  const key = PER_KEY + keyBytes + (expires ? PER_EXPIRY : 0);
  return key + STRING_HEADER + decodedBytes + loose * PER_ELEMENT[valueType];
}

/** The number of elements in the raw value of a key, without decoding it; undefined if the value does not state it. */
export function countOf(key: RdbKey): number | undefined {
  const shape = shapeOf(key.family, key.type);
  if (shape === undefined || shape.layout === "string" || shape.layout === "module")
    return undefined;
  const buffer = new RdbBuffer();
  buffer.append(key.raw);
  if (shape.earliest) buffer.skip(8);
  if (shape.layout === "counted" || shape.layout === "array") {
    const count = buffer.count();
    return count === MORE ? undefined : count;
  }
  if (shape.layout === "stream") return undefined;
  const blob = buffer.string();
  if (blob === undefined) return undefined;
  return packedCount(blob, shape.packing, PER_ENTRY[key.valueType] + (shape.expiring ? 1 : 0));
}

/** How many items of a packed collection make one element. */
const PER_ENTRY: Readonly<Record<ValueType, number>> = {
  string: 1,
  list: 1,
  set: 1,
  zset: 2,
  hash: 2,
  stream: 1,
  array: 1,
  module: 1,
};

function packedCount(blob: Buffer, packing: string | undefined, per: number): number | undefined {
  if (packing === "zipmap") return blob.length > 0 ? blob[0] : undefined;
  if (packing === "intset") return blob.length >= 8 ? blob.readUInt32LE(4) : undefined;
  const at = packing === "ziplist" ? 8 : 4;
  if (blob.length < at + 2) return undefined;
  const items = blob.readUInt16LE(at);
  return items === 65_535 ? undefined : items / per;
}
