/**
 * A stream: its entries in packed nodes, its counters, its groups.
 *
 *   nodes       n, then n x ( 16-byte string: id of the node, string: listpack )
 *   counters    length, last id; type >= 19: first id, greatest deleted id, entries added
 *   groups      n, then n x ( name, last id; type >= 19: entries read; pending; consumers; type 27: nacked )
 *   pending     n, then n x ( id: 16 raw bytes, delivery time: 8 bytes, deliveries: length )
 *   consumers   n, then n x ( name, seen: 8 bytes; type >= 21: active: 8 bytes; n, then n x id )
 *   type >= 26  duration, limit, producers: n x ( id, n x ( idempotent id, stream id ) ), two counters
 *
 * One walk serves both purposes. Without bounds it only finds the end, and also yields when the value is
 * larger than the buffer's limit; with bounds it yields parts.
 */
import type { StreamEntry, StreamId, StreamPart } from "../value/part.ts";
import { MORE, type RdbBuffer } from "./rdb-buffer.ts";
import { nodeEntries } from "./stream-node.ts";
import type { PartBounds, Walk } from "./walk.ts";

const WITH_COUNTERS = 19;
const WITH_ACTIVE_TIME = 21;
const WITH_IDEMPOTENCY = 26;
const WITH_NACKED = 27;

/** The value that means "unknown" in the counters of a group. */
const UNKNOWN = 0xffff_ffff_ffff_ffffn;

/** Moves past the value; with bounds it yields it in parts. */
export function* walkStream(buffer: RdbBuffer, type: number, bounds?: PartBounds): Walk {
  yield* walkNodes(buffer, bounds);
  const numbers: bigint[] = [];
  const counters = type >= WITH_COUNTERS ? 8 : 3;
  yield* lengths(buffer, numbers, counters);
  if (bounds !== undefined) yield infoOf(numbers);
  for (let left = yield* count(buffer); left > 0; left--) {
    yield* walkGroup(buffer, type, bounds);
  }
  if (type >= WITH_IDEMPOTENCY) yield* walkIdempotency(buffer, bounds);
}

type Counting = Generator<undefined, number>;

function* count(buffer: RdbBuffer): Counting {
  let value = buffer.count();
  for (; value === MORE; value = buffer.count()) yield;
  return value;
}

function* lengths(buffer: RdbBuffer, into: bigint[], howMany: number): Generator<undefined, void> {
  while (into.length < howMany) {
    const value = buffer.bigLength();
    if (value === undefined) yield;
    else into.push(value);
  }
}

function* text(buffer: RdbBuffer): Generator<undefined, Buffer> {
  let value = buffer.string();
  for (; value === undefined; value = buffer.string()) yield;
  if (buffer.isOver) yield;
  return value;
}

function* walkNodes(buffer: RdbBuffer, bounds: PartBounds | undefined): Walk {
  let entries: StreamEntry[] = [];
  let bytes = 0;
  for (let left = yield* count(buffer); left > 0; left--) {
    if (bounds === undefined) {
      for (let strings = 2; strings > 0; ) {
        strings -= buffer.skipStrings(strings);
        if (strings > 0 || buffer.isOver) yield;
      }
      continue;
    }
    const id = yield* text(buffer);
    if (id.length !== 16) throw buffer.malformed(`a stream node id of ${id.length} bytes`);
    const before = buffer.offset;
    const listpack = yield* text(buffer);
    buffer.start = buffer.pos;
    for (const entry of nodeEntries(idAt(id, 0), listpack, before)) {
      entries.push(entry);
      for (const field of entry.fields) bytes += field.length;
      if (entries.length < bounds.partElements && bytes < bounds.partBytes) continue;
      yield { type: "stream", piece: "entries", entries };
      entries = [];
      bytes = 0;
    }
  }
  if (entries.length > 0) yield { type: "stream", piece: "entries", entries };
}

function infoOf(numbers: readonly bigint[]): StreamPart {
  const id = (at: number): StreamId => ({ ms: numbers[at] ?? 0n, seq: numbers[at + 1] ?? 0n });
  const added =
    numbers.length < 8
      ? undefined
      : { firstId: id(3), maxDeletedId: id(5), entriesAdded: numbers[7] ?? 0n };
  return { type: "stream", piece: "info", length: Number(numbers[0]), lastId: id(1), added };
}

function* walkGroup(buffer: RdbBuffer, type: number, bounds: PartBounds | undefined): Walk {
  const name = yield* text(buffer);
  const numbers: bigint[] = [];
  yield* lengths(buffer, numbers, type >= WITH_COUNTERS ? 3 : 2);
  const [ms = 0n, seq = 0n, read = UNKNOWN] = numbers;
  if (bounds !== undefined) {
    const entriesRead = read === UNKNOWN ? undefined : read;
    yield { type: "stream", piece: "group", name, lastId: { ms, seq }, entriesRead };
  }
  release(buffer, bounds);
  yield* walkPending(buffer, bounds);
  for (let left = yield* count(buffer); left > 0; left--) {
    yield* walkConsumer(buffer, type, bounds);
  }
  if (type >= WITH_NACKED) yield* walkIds(buffer, "nacked", bounds);
}

function* walkPending(buffer: RdbBuffer, bounds: PartBounds | undefined): Walk {
  let pending = [];
  for (let left = yield* count(buffer); left > 0; ) {
    const at = buffer.pos;
    const deliveries = buffer.skip(24) ? buffer.length() : MORE;
    if (deliveries === MORE) {
      buffer.pos = at;
      yield;
      continue;
    }
    left--;
    buffer.decoded += 24;
    if (buffer.isOver) yield;
    if (bounds === undefined) continue;
    const deliveredAtMs = Number(buffer.bytes.readBigInt64LE(at + 16));
    pending.push({ id: idAt(buffer.bytes, at), deliveredAtMs, deliveries });
    buffer.start = buffer.pos;
    if (pending.length < bounds.partElements) continue;
    yield { type: "stream", piece: "pending", pending };
    pending = [];
  }
  if (pending.length > 0) yield { type: "stream", piece: "pending", pending };
}

function* walkConsumer(buffer: RdbBuffer, type: number, bounds: PartBounds | undefined): Walk {
  const name = yield* text(buffer);
  const width = type >= WITH_ACTIVE_TIME ? 16 : 8;
  while (!buffer.skip(width)) yield;
  if (bounds !== undefined) {
    const times = buffer.pos - width;
    const seenAtMs = Number(buffer.bytes.readBigInt64LE(times));
    const active = width === 16 ? Number(buffer.bytes.readBigInt64LE(times + 8)) : -1;
    const activeAtMs = active < 0 ? undefined : active;
    yield { type: "stream", piece: "consumer", name, seenAtMs, activeAtMs };
  }
  release(buffer, bounds);
  yield* walkIds(buffer, "owned", bounds);
}

function* walkIds(
  buffer: RdbBuffer,
  piece: "owned" | "nacked",
  bounds: PartBounds | undefined,
): Walk {
  let ids: StreamId[] = [];
  for (let left = yield* count(buffer); left > 0; left--) {
    while (!buffer.skip(16)) yield;
    buffer.decoded += 16;
    if (buffer.isOver) yield;
    if (bounds === undefined) continue;
    ids.push(idAt(buffer.bytes, buffer.pos - 16));
    buffer.start = buffer.pos;
    if (ids.length < bounds.partElements) continue;
    yield { type: "stream", piece, ids };
    ids = [];
  }
  if (ids.length > 0) yield { type: "stream", piece, ids };
}

/** The idempotency ids of producers are counted and not kept: they are needed for a few seconds only. */
function* walkIdempotency(buffer: RdbBuffer, bounds: PartBounds | undefined): Walk {
  const settings: bigint[] = [];
  yield* lengths(buffer, settings, 2);
  const producers = yield* count(buffer);
  let entries = 0;
  for (let left = producers; left > 0; left--) {
    yield* text(buffer);
    for (let inner = yield* count(buffer); inner > 0; inner--) {
      yield* text(buffer);
      yield* lengths(buffer, [], 2);
      release(buffer, bounds);
      entries++;
    }
    release(buffer, bounds);
  }
  const counters: bigint[] = [];
  yield* lengths(buffer, counters, 2);
  if (bounds === undefined) return;
  yield {
    type: "stream",
    piece: "idempotency",
    durationS: Number(settings[0]),
    maxEntries: Number(settings[1]),
    producers,
    entries,
    added: counters[0] ?? 0n,
    duplicates: counters[1] ?? 0n,
  };
}

/** Releases the bytes that were read if the value is decoded. A value that is skipped is returned whole. */
function release(buffer: RdbBuffer, bounds: PartBounds | undefined): void {
  if (bounds !== undefined) buffer.start = buffer.pos;
}

/** An id of 16 raw bytes, big-endian. */
function idAt(bytes: Buffer, at: number): StreamId {
  return { ms: bytes.readBigUInt64BE(at), seq: bytes.readBigUInt64BE(at + 8) };
}
