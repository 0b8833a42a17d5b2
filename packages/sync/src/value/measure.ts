/** Measures the size of a part. */
import type { ValuePart } from "./part.ts";

/** The number of its elements; for a string and a module, the number of bytes. */
export function elementsOf(part: ValuePart): number {
  switch (part.type) {
    case "string":
    case "module":
      return part.bytes.length;
    case "list":
      return part.elements.length;
    case "set":
    case "zset":
      return part.members.length;
    case "hash":
      return part.fields.length;
    case "stream":
      return part.piece === "entries" ? part.entries.length : 0;
    case "array":
      return part.values.length;
  }
}

const STREAM_ID = 16;
const SCORE = 8;

/** The number of bytes of its strings and numbers. */
export function bytesOf(part: ValuePart): number {
  switch (part.type) {
    case "string":
    case "module":
      return part.bytes.length;
    case "list":
      return sum(part.elements);
    case "set":
      return sum(part.members);
    case "zset":
      return sum(part.members) + SCORE * part.members.length;
    case "hash":
      return sum(part.fields) + sum(part.values);
    case "array":
      return sum(part.values) + SCORE * part.values.length;
    case "stream":
      if (part.piece === "entries") {
        return part.entries.reduce((total, { fields }) => total + STREAM_ID + sum(fields), 0);
      }
      if (part.piece === "pending") return part.pending.length * (STREAM_ID + SCORE);
      return part.piece === "owned" || part.piece === "nacked" ? part.ids.length * STREAM_ID : 0;
  }
}

function sum(buffers: readonly Buffer[]): number {
  let total = 0;
  for (const buffer of buffers) total += buffer.length;
  return total;
}
