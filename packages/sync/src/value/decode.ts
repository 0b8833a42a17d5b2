/** Decodes the raw bytes of a value. */
import { RdbFormatError, UnsupportedRdbError } from "../errors.ts";
import { walkDecoding } from "../rdb/decode-walk.ts";
import type { RdbFamily } from "../rdb/entry.ts";
import { RdbBuffer } from "../rdb/rdb-buffer.ts";
import { shapeOf, whyUnknown } from "../rdb/shape.ts";
import type { PartBounds } from "../rdb/walk.ts";
import type { ValuePart } from "./part.ts";

/** A value as in a file or payload. RdbKey is one. */
export interface RawValue {
  readonly family: RdbFamily;
  readonly type: number;
  readonly raw: Buffer;
}

const BOUNDS: PartBounds = { partElements: 1000, partBytes: 256 * 1024 };

/** The parts of a value, one at a time. Throws RdbFormatError with an offset in the raw bytes. */
export function* decodeValue(
  value: RawValue,
  bounds: PartBounds = BOUNDS,
): Generator<ValuePart, void> {
  const { family, type, raw } = value;
  const shape = shapeOf(family, type);
  if (shape === undefined) {
    const reason = whyUnknown(family, type);
    throw new UnsupportedRdbError({ offset: 0, what: "type", id: type, family, reason });
  }
  const buffer = new RdbBuffer();
  buffer.family = family;
  buffer.append(raw);
  for (const part of walkDecoding({ buffer, shape, type, bounds })) {
    if (part === undefined) throw new RdbFormatError(raw.length, "the value ends early");
    yield part;
  }
  if (buffer.pos !== raw.length) throw buffer.malformed("bytes after the end of the value");
}
