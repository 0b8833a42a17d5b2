/**
 * Decodes a value into parts while its bytes arrive. Every element is released as soon as it is read, so
 * a value of any size needs the memory of one part and one element.
 */
import { openPacked } from "../packed/open.ts";
import { Collector } from "../value/collector.ts";
import { walkArray } from "./array-walk.ts";
import { LzfPieces } from "./lzf.ts";
import { walkModule } from "./module-walk.ts";
import { MORE, type RdbBuffer } from "./rdb-buffer.ts";
import type { Packing, Shape } from "./shape.ts";
import { walkStream } from "./stream-walk.ts";
import type { PartBounds, Walk } from "./walk.ts";

/** The value to decode, whose first byte is at the buffer's `pos` and `start`. */
export interface Decoding {
  readonly buffer: RdbBuffer;
  readonly shape: Shape;
  readonly type: number;
  readonly bounds: PartBounds;
}

/** Yields the parts of the value, and undefined when bytes are missing. */
export function walkDecoding(decoding: Decoding): Walk {
  const { buffer, shape, type, bounds } = decoding;
  if (shape.layout === "string") return walkString(buffer, bounds);
  if (shape.layout === "blob") return walkBlob(decoding);
  if (shape.layout === "stream") return walkStream(buffer, type, bounds);
  if (shape.layout === "module") return walkModule(buffer, bounds);
  if (shape.layout === "array") return walkArray(buffer, bounds);
  if (shape.valueType === "list") return walkList(decoding);
  if (shape.valueType === "set") return walkSet(decoding);
  return shape.valueType === "zset" ? walkZset(decoding) : walkHash(decoding);
}

/** A string, compressed or not, in pieces of `partBytes`. */
function* walkString(buffer: RdbBuffer, { partBytes }: PartBounds): Walk {
  while (!buffer.head()) yield;
  const whole = buffer.size <= Math.min(partBytes, buffer.maxElementBytes);
  if (whole || !(buffer.isRaw || buffer.compressed)) {
    for (;;) {
      const bytes = buffer.string();
      buffer.start = buffer.pos;
      if (bytes !== undefined) return yield { type: "string", bytes };
      yield;
    }
  }
  const pieces = buffer.compressed ? new LzfPieces(buffer.size, partBytes) : undefined;
  let left = buffer.stored;
  buffer.enter();
  while (left > 0) {
    const length = Math.min(left, partBytes);
    buffer.start = buffer.pos;
    while (!buffer.skip(length)) yield;
    const bytes = buffer.bytes.subarray(buffer.pos - length, buffer.pos);
    buffer.start = buffer.pos;
    left -= length;
    if (pieces === undefined) yield { type: "string", bytes };
    else yield* decompressed(buffer, pieces, bytes);
  }
  if (pieces !== undefined) finish(buffer, pieces);
}

function* decompressed(buffer: RdbBuffer, pieces: LzfPieces, input: Buffer): Walk {
  pieces.feed(input);
  for (;;) {
    const bytes = pieceOf(buffer, pieces);
    if (bytes === undefined) return;
    yield { type: "string", bytes };
  }
}

function pieceOf(buffer: RdbBuffer, pieces: LzfPieces): Buffer | undefined {
  try {
    return pieces.piece();
  } catch {
    throw buffer.malformed("a string that is not valid LZF");
  }
}

function finish(buffer: RdbBuffer, pieces: LzfPieces): void {
  try {
    pieces.finish();
  } catch {
    throw buffer.malformed("a string that is not valid LZF");
  }
}

/** A packed collection in one string. */
function* walkBlob({ buffer, shape, bounds }: Decoding): Walk {
  if (shape.earliest) while (!buffer.skip(8)) yield;
  const offset = buffer.offset;
  const blob = yield* text(buffer);
  const cursor = openPacked(shape.packing as Packing, blob, offset);
  const collector = new Collector(shape.valueType, bounds);
  const second = (): Buffer => {
    const element = cursor.next();
    if (element === undefined) throw buffer.malformed(`a ${shape.packing} with half an element`);
    return element;
  };
  for (let first = cursor.next(); first !== undefined; first = cursor.next()) {
    let full: boolean;
    if (shape.valueType === "zset") full = collector.addScored(first, scoreOf(buffer, second()));
    else if (shape.valueType === "hash") {
      const value = second();
      full = collector.addField(first, value, shape.expiring ? scoreOf(buffer, second()) : 0);
    } else full = collector.add(first);
    if (full) yield collector.take();
  }
  if (!collector.empty) yield collector.take();
}

function* walkList({ buffer, shape, bounds }: Decoding): Walk {
  const collector = new Collector("list", bounds);
  const containers = shape.element?.[0] === "length";
  for (let left = yield* count(buffer); left > 0; left--) {
    let container = PACKED;
    if (containers) {
      container = yield* count(buffer);
      if (container !== PLAIN && container !== PACKED) {
        throw buffer.malformed(`quicklist container ${container}`);
      }
    }
    const offset = buffer.offset;
    const node = yield* text(buffer);
    if (shape.packing === undefined || container === PLAIN) {
      if (collector.add(node)) yield collector.take();
      continue;
    }
    const cursor = openPacked(shape.packing, node, offset);
    for (let element = cursor.next(); element !== undefined; element = cursor.next()) {
      if (collector.add(element)) yield collector.take();
    }
  }
  if (!collector.empty) yield collector.take();
}

/** The kind of a quicklist node: one large element, or a listpack. */
const PLAIN = 1;
const PACKED = 2;

function* walkSet({ buffer, bounds }: Decoding): Walk {
  const collector = new Collector("set", bounds);
  for (let left = yield* count(buffer); left > 0; left--) {
    if (collector.add(yield* text(buffer))) yield collector.take();
  }
  if (!collector.empty) yield collector.take();
}

function* walkZset({ buffer, shape, bounds }: Decoding): Walk {
  const collector = new Collector("zset", bounds);
  const binary = shape.element?.[1] === "eight";
  for (let left = yield* count(buffer); left > 0; left--) {
    const member = yield* text(buffer);
    if (binary) while (!buffer.skip(8)) yield;
    const score = binary ? buffer.bytes.readDoubleLE(buffer.pos - 8) : yield* asciiScore(buffer);
    if (Number.isNaN(score)) throw buffer.malformed("a score that is not a number");
    buffer.start = buffer.pos;
    if (collector.addScored(member, score)) yield collector.take();
  }
  if (!collector.empty) yield collector.take();
}

/** The three layouts of a hash as items: plain, Redis with field expiry, Valkey with field expiry. */
function* walkHash({ buffer, shape, bounds }: Decoding): Walk {
  const collector = new Collector("hash", bounds);
  const before = shape.element?.[0] === "length";
  const after = shape.element?.[2] === "eight";
  let earliest = 1;
  if (shape.earliest) {
    while (!buffer.skip(8)) yield;
    earliest = Number(buffer.bytes.readBigUInt64LE(buffer.pos - 8));
  }
  for (let left = yield* count(buffer); left > 0; left--) {
    let expiresAtMs = 0;
    if (before) {
      const relative = yield* count(buffer);
      expiresAtMs = relative === 0 ? 0 : relative + earliest - 1;
    }
    const field = yield* text(buffer);
    const value = yield* text(buffer);
    if (after) {
      while (!buffer.skip(8)) yield;
      expiresAtMs = Number(buffer.bytes.readBigInt64LE(buffer.pos - 8));
      buffer.start = buffer.pos;
    }
    if (collector.addField(field, value, expiresAtMs)) yield collector.take();
  }
  if (!collector.empty) yield collector.take();
}

function* count(buffer: RdbBuffer): Generator<undefined, number> {
  let value = buffer.count();
  for (; value === MORE; value = buffer.count()) yield;
  return value;
}

/** One string, released from the buffer. */
function* text(buffer: RdbBuffer): Generator<undefined, Buffer> {
  let value = buffer.string();
  for (; value === undefined; value = buffer.string()) yield;
  buffer.start = buffer.pos;
  return value;
}

/** A score before RDB 8. */
function* asciiScore(buffer: RdbBuffer): Generator<undefined, number> {
  while (!buffer.skip(1)) yield;
  const length = buffer.bytes[buffer.pos - 1] as number;
  if (length === 253) return Number.NaN;
  if (length === 254) return Number.POSITIVE_INFINITY;
  if (length === 255) return Number.NEGATIVE_INFINITY;
  while (!buffer.skip(length)) yield;
  const { bytes, pos } = buffer;
  return numberOf(bytes.toString("latin1", pos - length, pos));
}

/** The score or expiry in an element of a packed collection. */
function scoreOf(buffer: RdbBuffer, element: Buffer): number {
  const score = numberOf(element.toString("latin1"));
  if (Number.isNaN(score)) throw buffer.malformed("a score that is not a number");
  return score;
}

/** A number as C's strtod reads it, or NaN. */
function numberOf(text: string): number {
  if (/^[+-]?inf(inity)?$/i.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
  return text.trim() === "" ? Number.NaN : Number(text);
}
