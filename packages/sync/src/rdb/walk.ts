/**
 * A walk reads a value that may not have arrived completely. It yields undefined when it needs more bytes
 * (`want` has the number) or has crossed the buffer's limit, and continues when it is resumed. A walk that decodes also
 * yields the parts that it has completed.
 */
import type { ValuePart } from "../value/part.ts";

export type Walk = Generator<ValuePart | undefined, void>;

/** The size at which a decoded part is returned. */
export interface PartBounds {
  readonly partElements: number;
  readonly partBytes: number;
}
