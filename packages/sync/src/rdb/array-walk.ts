/**
 * An array (Redis 8.8 and later): n, whether there is a cursor, [the cursor], then n elements.
 *
 *   element   index (64-bit length), tag, data
 *   tag       0, 3: a string   1: 8 bytes, signed integer   2: 8 bytes, double      all little-endian
 */
import type { ArrayPart } from "../value/part.ts";
import { MORE, type RdbBuffer } from "./rdb-buffer.ts";
import type { PartBounds, Walk } from "./walk.ts";

/** Moves past the value; with bounds it yields the elements in parts. */
export function* walkArray(buffer: RdbBuffer, bounds?: PartBounds): Walk {
  let count = buffer.count();
  for (; count === MORE; count = buffer.count()) yield;
  let flag = buffer.length();
  for (; flag === MORE; flag = buffer.length()) yield;
  if (flag > 1) throw buffer.malformed(`array cursor flag ${flag}`);
  let insertIndex: bigint | undefined;
  if (flag === 1) {
    insertIndex = buffer.bigLength();
    for (; insertIndex === undefined; insertIndex = buffer.bigLength()) yield;
  }
  let part = new Collected(insertIndex);
  for (let left = count; left > 0; ) {
    const element = readElement(buffer);
    if (element === undefined) {
      yield;
      continue;
    }
    left--;
    if (buffer.isOver) yield;
    if (bounds === undefined) continue;
    part.add(element);
    buffer.start = buffer.pos;
    if (!part.full(bounds)) continue;
    yield part;
    part = new Collected(insertIndex);
  }
  if (part.values.length > 0) yield part;
}

class Collected implements ArrayPart {
  readonly type = "array" as const;
  readonly indexes: bigint[] = [];
  readonly values: Buffer[] = [];
  readonly insertIndex: bigint | undefined;
  #bytes = 0;

  constructor(insertIndex: bigint | undefined) {
    this.insertIndex = insertIndex;
  }

  add({ index, value }: Element): void {
    this.indexes.push(index);
    this.values.push(value);
    this.#bytes += value.length;
  }

  full({ partElements, partBytes }: PartBounds): boolean {
    return this.values.length >= partElements || this.#bytes >= partBytes;
  }
}

interface Element {
  readonly index: bigint;
  readonly value: Buffer;
}

/** One element, or undefined with `pos` unchanged. */
function readElement(buffer: RdbBuffer): Element | undefined {
  const at = buffer.pos;
  const index = buffer.bigLength();
  const tag = index === undefined ? MORE : buffer.length();
  const value = tag === MORE ? undefined : readData(buffer, tag);
  if (index !== undefined && value !== undefined) return { index, value };
  buffer.pos = at;
  return undefined;
}

function readData(buffer: RdbBuffer, tag: number): Buffer | undefined {
  if (tag === 0 || tag === 3) return buffer.string();
  if (tag !== 1 && tag !== 2) throw buffer.malformed(`array element tag ${tag}`);
  const at = buffer.pos;
  if (!buffer.skip(8)) return undefined;
  const { bytes } = buffer;
  const value = tag === 1 ? bytes.readBigInt64LE(at) : bytes.readDoubleLE(at);
  return Buffer.from(String(value), "latin1");
}
