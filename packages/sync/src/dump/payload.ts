/**
 * The payload that DUMP returns and RESTORE accepts: a value as in an RDB, with a footer.
 *
 *   [key metadata] type value | RDB version u16 | CRC64 of all before it        little-endian
 *
 * The writer chooses the footer's version: a server refuses a version above its own, and then checks the
 * type. So the footer gets the lowest version that has the type, and a value of an old type can move from a new
 * server to an old one unchanged. Redis up to 3.2 accepts exactly its own version.
 */
import { DumpPayloadError } from "../errors.ts";
import { Crc64 } from "../rdb/crc64.ts";
import type { RdbFamily } from "../rdb/entry.ts";
import { nextOpcode } from "../rdb/module-walk.ts";
import { OPCODE } from "../rdb/opcode.ts";
import { MORE, RdbBuffer } from "../rdb/rdb-buffer.ts";
import { shapeOf } from "../rdb/shape.ts";

/** The bytes of the footer. */
const VERSION_BYTES = 2;
const CHECKSUM_BYTES = 8;
export const FOOTER_BYTES: number = VERSION_BYTES + CHECKSUM_BYTES;

/** Redis 4.0 and later accept any version up to their own. Lower versions than this one are never written. */
const LOWEST_FOOTER = 6;
const FIRST_VALKEY_VERSION = 80;

/** A value to be restored. RdbKey is one. */
export interface Dumpable {
  readonly family: RdbFamily;
  readonly type: number;
  readonly raw: Buffer;
}

/** The content of a payload. */
export interface DumpedValue extends Dumpable {
  /** The version in the footer. */
  readonly version: number;
}

/** The lowest footer version for a payload of this type; undefined if RESTORE does not accept the type. */
export function lowestVersion(family: RdbFamily, type: number): number | undefined {
  const shape = shapeOf(family, type);
  if (shape === undefined) return undefined;
  // Only release candidates of Redis 7.4 read these two.
  if (family === "redis" && (type === 22 || type === 23)) return undefined;
  return Math.max(LOWEST_FOOTER, shape.since);
}

/**
 * The footer version for a target that writes RDB `targetVersion`; undefined if it cannot read the type.
 * Redis up to 3.2 (RDB 6 and 7) refuses any other version than its own.
 */
export function footerVersion(
  family: RdbFamily,
  type: number,
  targetVersion: number,
): number | undefined {
  const lowest = lowestVersion(family, type);
  if (lowest === undefined) return undefined;
  // Valkey 9 reads what Redis up to 7.2 wrote, and refuses 12 to 79.
  if (targetVersion >= FIRST_VALKEY_VERSION && lowest > 11 && family === "redis") return undefined;
  if (lowest > targetVersion) return undefined;
  return targetVersion <= 7 ? targetVersion : lowest;
}

const crc = new Crc64();

/** The payload for RESTORE. `version` defaults to the lowest one; throws DumpPayloadError if there is none. */
export function dumpPayload(
  value: Dumpable,
  version: number | undefined = lowestVersion(value.family, value.type),
): Buffer {
  const { type, raw } = value;
  if (version === undefined) throw new DumpPayloadError(`RESTORE cannot take type ${type}`);
  const payload = Buffer.allocUnsafe(1 + raw.length + FOOTER_BYTES);
  payload[0] = type;
  raw.copy(payload, 1);
  sealPayload(payload, 0, { length: payload.length, version });
  return payload;
}

/** The end of a payload, and the version in its footer. */
export interface Seal {
  /** The length of the payload with its footer. */
  readonly length: number;
  readonly version: number;
}

/** Writes the footer of a payload that was assembled in place, such as in the buffer of a socket. */
export function sealPayload(bytes: Buffer, start: number, { length, version }: Seal): void {
  const footer = start + length - FOOTER_BYTES;
  bytes[footer] = version & 0xff;
  bytes[footer + 1] = version >> 8;
  crc.reset().update(bytes, start, footer + VERSION_BYTES);
  crc.write(bytes, footer + VERSION_BYTES);
}

/** Parses a payload and verifies its checksum. Throws DumpPayloadError. */
export function readDump(payload: Buffer): DumpedValue {
  const footer = payload.length - FOOTER_BYTES;
  if (footer < 1) throw new DumpPayloadError(`it has only ${payload.length} bytes`);
  const sum = footer + VERSION_BYTES;
  const omitted = payload.readInt32LE(sum) === 0 && payload.readInt32LE(sum + 4) === 0;
  if (!omitted && !crc.reset().update(payload, 0, sum).matches(payload, sum)) {
    throw new DumpPayloadError("its checksum does not match");
  }
  const version = payload.readUInt16LE(footer);
  const family: RdbFamily = version >= FIRST_VALKEY_VERSION ? "valkey" : "redis";
  const at = family === "redis" && payload[0] === OPCODE.META ? metaEnd(payload, footer) : 0;
  const type = payload[at] as number;
  return { family, type, version, raw: payload.subarray(at + 1, footer) };
}

/** Where the key metadata of Redis 8.6 ends. */
function metaEnd(payload: Buffer, footer: number): number {
  const buffer = new RdbBuffer();
  buffer.append(payload.subarray(0, footer));
  buffer.pos = 1;
  for (let left = buffer.count(); left > 0; left--) {
    let opcode = buffer.skip(4) ? nextOpcode(buffer) : MORE;
    while (opcode > 0) opcode = nextOpcode(buffer);
    if (opcode === MORE) throw new DumpPayloadError("its key metadata has no end");
  }
  if (buffer.pos >= footer) throw new DumpPayloadError("it has no type");
  return buffer.pos;
}
