/**
 * A walk goes through a value of which it does not know whether all bytes are here. It yields undefined
 * when it needs more (`want` says how many) or has crossed the buffer's limit, and goes on when it is resumed. A walk that decodes also
 * yields the parts it has completed.
 */
import type { ValuePart } from "../value/part.ts";

export type Walk = Generator<ValuePart | undefined, void>;

/** How large a decoded part becomes before it is handed out. */
export interface PartBounds {
  readonly partElements: number;
  readonly partBytes: number;
}
