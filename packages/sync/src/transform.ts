/**
 * A function of the user that gets each write before it is sent to the target, and may change or drop it. It
 * must be pure: after a lost connection it may be called again for the same write.
 */
import { reasonOf, show } from "@ropeway/core/internal";
import { TransformError } from "./errors.ts";

/** A write of the source, after the changes of the other options. */
export interface TransformInput {
  /** In upper case. For a key of a snapshot: RESTORE or SET, or the commands of the slow path. */
  readonly command: string;
  /** The command and its arguments. */
  readonly argv: readonly Buffer[];
  /** The keys among the arguments. */
  readonly keys: readonly Buffer[];
  /** The database at the target. */
  readonly db: number;
  readonly phase: "snapshot" | "stream";
}

/** What to write instead: the same write (true), nothing (false), or these commands. */
export type TransformResult = boolean | readonly (readonly (Buffer | string)[])[];

/** Changes or drops a write before it is sent to the target. */
export type Transform = (input: TransformInput) => TransformResult;

/** Commands that would change the connection or the transaction that they are sent in. */
const FORBIDDEN = new Set(
  `AUTH ASKING CLIENT DISCARD EXEC HELLO MONITOR MULTI PSUBSCRIBE PSYNC QUIT READONLY READWRITE REPLCONF RESET SELECT
   SSUBSCRIBE SUBSCRIBE SYNC UNWATCH WATCH`.split(/\s+/),
);

/** Calls the function. Throws TransformError if it throws, or if its result cannot be written. */
export function transformed(transform: Transform, input: TransformInput): TransformResult {
  const { command, keys } = input;
  const failed = (problem: string, cause?: unknown) =>
    new TransformError({ command, key: String(keys[0] ?? "") }, problem, cause);
  let result: unknown;
  try {
    result = transform(input);
  } catch (error) {
    throw failed(`it threw ${reasonOf(error)}`, error);
  }
  if (typeof result === "boolean") return result;
  if (!Array.isArray(result)) throw failed(`it returned ${show(result)}`);
  for (const argv of result as readonly unknown[]) {
    const words = Array.isArray(argv) ? (argv as readonly unknown[]) : [];
    const valid = words.every((word) => typeof word === "string" || Buffer.isBuffer(word));
    const name = valid ? String(words[0] ?? "").toUpperCase() : "";
    if (name === "" || FORBIDDEN.has(name)) throw failed(`it returned the command ${show(argv)}`);
  }
  return result as TransformResult;
}
