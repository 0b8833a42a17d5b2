/**
 * Finds the end of a value without decoding it. This is the hot path of a full sync, so the two common
 * layouts are plain loops; the rare ones are generators that yield whenever bytes are missing.
 *
 * A value larger than the bounds is LARGE: the reader then returns to its first byte and decodes it in
 * parts. Whether a value is LARGE never depends on how its bytes are cut into chunks.
 */

import { walkArray } from "./array-walk.ts";
import { walkModule } from "./module-walk.ts";
import { MORE, type RdbBuffer } from "./rdb-buffer.ts";
import type { Item, Shape } from "./shape.ts";
import { walkStream } from "./stream-walk.ts";
import type { Walk } from "./walk.ts";

/** The result of a step: the end of the value, missing bytes, or a crossed bound. */
export type Skipped = "end" | "more" | "large";

/** The maximum size of a value that is returned whole. */
export interface RawBounds {
  readonly maxRawBytes: number;
  readonly maxRawElements: number;
}

/** Skips one value after another. */
export class ValueSkipper {
  readonly #buffer: RdbBuffer;
  readonly #bounds: RawBounds;
  #shape: Shape | undefined;
  #strings = false;
  /** The remaining items of a counted value; -1 before its count is read. */
  #items = -1;
  #walk: Walk | undefined;
  /** Whether the value has no elements. Servers drop such a key when they load it. */
  empty = false;

  constructor(buffer: RdbBuffer, bounds: RawBounds) {
    this.#buffer = buffer;
    this.#bounds = bounds;
  }

  /** Starts with a value whose first byte is at the buffer's `pos`. */
  begin(shape: Shape, type: number): void {
    this.#shape = shape;
    this.#strings = shape.strings;
    this.#items = -1;
    this.empty = false;
    this.#buffer.decoded = 0;
    this.#buffer.limit = this.#bounds.maxRawBytes;
    this.#walk = walkOf(this.#buffer, shape, type);
  }

  /** Continues as far as the bytes allow. */
  step(): Skipped {
    const shape = this.#shape as Shape;
    if (shape.layout === "string" || shape.layout === "blob") return this.#string(shape);
    return shape.layout === "counted" ? this.#counted(shape) : this.#walked();
  }

  #string(shape: Shape): Skipped {
    const buffer = this.#buffer;
    const at = buffer.pos;
    if (shape.earliest && !buffer.skip(8)) return "more";
    if (!buffer.head()) {
      buffer.pos = at;
      return "more";
    }
    if (buffer.size > this.#bounds.maxRawBytes) return "large";
    if (buffer.skipString()) return "end";
    buffer.pos = at;
    return "more";
  }

  #counted(shape: Shape): Skipped {
    const buffer = this.#buffer;
    const element = shape.element as readonly Item[];
    if (this.#items < 0) {
      const at = buffer.pos;
      if (shape.earliest && !buffer.skip(8)) return "more";
      const count = buffer.count();
      if (count === MORE) {
        buffer.pos = at;
        return "more";
      }
      if (count === 0) {
        this.empty = true;
        return "end";
      }
      if (count > this.#bounds.maxRawElements) return "large";
      this.#items = count * element.length;
    }
    if (!this.#skipItems(element)) return "more";
    return buffer.isOver ? "large" : "end";
  }

  /** Skips items until none is left or the bound is crossed; returns false if bytes are missing. */
  #skipItems(element: readonly Item[]): boolean {
    const buffer = this.#buffer;
    const width = element.length;
    if (this.#strings) {
      this.#items -= buffer.skipStrings(this.#items);
      return this.#items === 0 || buffer.isOver;
    }
    while (this.#items > 0) {
      const step = (width - (this.#items % width)) % width;
      if (!skipItem(buffer, element[step] as Item)) return false;
      this.#items--;
      if (buffer.isOver) return true;
    }
    return true;
  }

  #walked(): Skipped {
    const walk = this.#walk as Walk;
    for (;;) {
      const { done } = walk.next();
      if (this.#buffer.isOver) return "large";
      if (done) return "end";
      if (this.#buffer.want > this.#buffer.end - this.#buffer.start) return "more";
    }
  }
}

function skipItem(buffer: RdbBuffer, item: Item): boolean {
  if (item === "string") return buffer.skipString();
  if (item === "eight") return skipFixed(buffer, 8);
  if (item === "length") return buffer.length() !== MORE;
  return skipScore(buffer);
}

function skipFixed(buffer: RdbBuffer, bytes: number): boolean {
  if (!buffer.skip(bytes)) return false;
  buffer.decoded += bytes;
  return true;
}

/** A score before RDB 8: one byte that is a length or one of three special values, then digits. */
function skipScore(buffer: RdbBuffer): boolean {
  if (buffer.pos >= buffer.end) return buffer.lack(buffer.pos + 1) !== MORE;
  const length = buffer.bytes[buffer.pos] as number;
  return buffer.skip(1 + (length >= 253 ? 0 : length));
}

function walkOf(buffer: RdbBuffer, shape: Shape, type: number): Walk | undefined {
  if (shape.layout === "stream") return walkStream(buffer, type);
  if (shape.layout === "module") return walkModule(buffer);
  return shape.layout === "array" ? walkArray(buffer) : undefined;
}
