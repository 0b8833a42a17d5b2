/** Moves the expiry of hash fields (`ttlShiftMs`). RESTORE cannot do that, so such values are written with commands. */
import { shapeOf } from "../rdb/shape.ts";
import type { RawValue } from "./decode.ts";
import type { ValuePart } from "./part.ts";

/** Whether the value has field expiries, which RESTORE would write unchanged. */
export function needsShift(
  { family, type }: Pick<RawValue, "family" | "type">,
  shiftMs: number,
): boolean {
  return shiftMs !== 0 && shapeOf(family, type)?.expiring === true;
}

/** The part with the expiry of its fields moved. */
export function shiftFields(part: ValuePart, shiftMs: number): ValuePart {
  if (shiftMs === 0 || part.type !== "hash" || part.expiresAtMs === undefined) return part;
  const expiresAtMs = part.expiresAtMs.map((at) => (at <= 0 ? at : Math.max(1, at + shiftMs)));
  return { ...part, expiresAtMs };
}

/** The same for all parts of a value. */
export function* shiftedParts(
  parts: Iterable<ValuePart>,
  shiftMs: number,
): Generator<ValuePart, void> {
  for (const part of parts) yield shiftFields(part, shiftMs);
}
