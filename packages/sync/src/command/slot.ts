/**
 * The cluster slots of binary keys, and the division of commands by slot. (`slotOf` of core takes strings; the keys
 * of a migration are bytes.)
 */
import { keysOf } from "./keys.ts";
import { specOf } from "./table.ts";

const SLOTS = 16_384;
const OPEN = 0x7b;
const CLOSE = 0x7d;

const CRC16: Uint16Array = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc & 0xffff;
});

/** The slot of the key between `start` and `end`. Only its hash tag counts, if it has one. */
export function keySlot(bytes: Buffer, start: number = 0, end: number = bytes.length): number {
  let from = start;
  let to = end;
  for (let at = start; at < end; at++) {
    if (bytes[at] !== OPEN) continue;
    const close = bytes.indexOf(CLOSE, at + 1);
    if (close > at + 1 && close < end) {
      from = at + 1;
      to = close;
    }
    break;
  }
  let crc = 0;
  for (let at = from; at < to; at++) {
    crc = ((crc << 8) ^ (CRC16[(crc >> 8) ^ (bytes[at] as number)] as number)) & 0xffff;
  }
  return crc % SLOTS;
}

/** A command, or a piece of one, whose keys are all in one slot. `slot` is undefined without keys. */
export interface SlotCommand {
  readonly slot: number | undefined;
  readonly argv: readonly Buffer[];
}

/**
 * Divides the command into commands of one slot each. Undefined if that would change its meaning
 * (RENAME, SMOVE, BITOP, stores, MSETNX) or if its keys are not known.
 */
export function splitBySlot(argv: readonly Buffer[]): SlotCommand[] | undefined {
  const keys = keysOf(argv);
  if (keys === undefined) return undefined;
  const slots = keys.map((at) => keySlot(argv[at] as Buffer));
  const first = slots[0];
  if (slots.every((slot) => slot === first)) return [{ slot: first, argv }];
  const splitting = specOf(argv)?.splitting ?? "never";
  if (splitting === "never") return undefined;
  const pieces = new Map<number, Buffer[]>();
  keys.forEach((at, i) => {
    const slot = slots[i] as number;
    const piece = pieces.get(slot) ?? [argv[0] as Buffer];
    piece.push(...argv.slice(at, splitting === "pairs" ? at + 2 : at + 1));
    pieces.set(slot, piece);
  });
  return Array.from(pieces, ([slot, piece]) => ({ slot, argv: piece }));
}
