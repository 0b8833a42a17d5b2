/**
 * The value of a module. Only its framing is known: its id, then opcodes with their data.
 *
 *   id (64-bit length), then repeatedly
 *     1 signed, 2 unsigned    a length
 *     3 float                 4 bytes
 *     4 double                8 bytes
 *     5 string                a string
 *     0                       the end
 */
import { MORE, RdbBuffer } from "./rdb-buffer.ts";
import type { PartBounds, Walk } from "./walk.ts";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** Moves past the value; with bounds it yields the raw bytes in parts. */
export function* walkModule(buffer: RdbBuffer, bounds?: PartBounds): Walk {
  let id = buffer.bigLength();
  for (; id === undefined; id = buffer.bigLength()) yield;
  const module = moduleName(id);
  for (;;) {
    const opcode = nextOpcode(buffer);
    if (opcode === MORE) {
      yield;
      continue;
    }
    if (buffer.isOver) yield;
    if (bounds !== undefined && (opcode === 0 || buffer.pos - buffer.start >= bounds.partBytes)) {
      const bytes = buffer.bytes.subarray(buffer.start, buffer.pos);
      buffer.start = buffer.pos;
      yield { type: "module", module, bytes };
    }
    if (opcode === 0) return;
  }
}

/** Moves past one opcode with its data and returns it. 0 is the last one; MORE means that bytes are missing. */
export function nextOpcode(buffer: RdbBuffer): number {
  const at = buffer.pos;
  const opcode = buffer.length();
  if (opcode === 0 || opcode === MORE || skipData(buffer, opcode)) return opcode;
  buffer.pos = at;
  return MORE;
}

function skipData(buffer: RdbBuffer, opcode: number): boolean {
  if (opcode === 1 || opcode === 2) return buffer.length() !== MORE;
  if (opcode === 3) return buffer.skip(4);
  if (opcode === 4) return buffer.skip(8);
  if (opcode === 5) return buffer.skipString();
  throw buffer.malformed(`module opcode ${opcode}`);
}

/** The nine characters, six bits each, above the ten bits of the encoding version. */
export function moduleName(id: bigint): string {
  let name = "";
  for (let shift = 58n; shift >= 10n; shift -= 6n) name += ALPHABET[Number((id >> shift) & 63n)];
  return name;
}

/** The name of the module's type in a raw value. */
export function moduleOf(raw: Buffer): string {
  const buffer = new RdbBuffer();
  buffer.append(raw);
  return moduleName(buffer.bigLength() ?? 0n);
}
