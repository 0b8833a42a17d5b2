/**
 * A function of the user that sees each write before it goes to the target, and may change or drop it. It
 * must be pure: after a lost connection the same write may be asked for again.
 */

/** A write as the source made it, with the changes that other options made to it. */
export interface TransformInput {
  /** Upper case; a key of a snapshot is RESTORE or SET, or the commands of the slow path. */
  readonly command: string;
  /** The command and its arguments. */
  readonly argv: readonly Buffer[];
  /** The keys among the arguments. */
  readonly keys: readonly Buffer[];
  /** The database at the target. */
  readonly db: number;
  readonly phase: "snapshot" | "stream";
}

/** What is written instead: the same write (true), nothing (false), or these commands. */
export type TransformResult = boolean | readonly (readonly (Buffer | string)[])[];

/** Changes or drops a write before it goes to the target. */
export type Transform = (input: TransformInput) => TransformResult;
