/** Removes or renames the keys of commands, for filters and renames. */
import { keysOf } from "./keys.ts";
import { specOf } from "./table.ts";

/**
 * The part of a command that concerns accepted keys: the command itself, a shorter one, or undefined if no
 * key is left. "mixed" if accepted and refused keys cannot be separated (RENAME, SMOVE, stores), "unknown"
 * if the keys of the command are not known.
 */
export function pickKeys(
  argv: readonly Buffer[],
  accepts: (key: Buffer) => boolean,
): readonly Buffer[] | "mixed" | "unknown" | undefined {
  const keys = keysOf(argv);
  if (keys === undefined) return "unknown";
  const accepted = keys.filter((at) => accepts(argv[at] as Buffer));
  if (accepted.length === keys.length) return argv;
  if (accepted.length === 0) return undefined;
  const splitting = specOf(argv)?.splitting ?? "never";
  if (splitting === "never") return "mixed";
  const width = splitting === "pairs" ? 2 : 1;
  return [argv[0] as Buffer, ...accepted.flatMap((at) => argv.slice(at, at + width))];
}

/** The command with every key renamed; undefined if its keys are not known. */
export function renameKeys(
  argv: readonly Buffer[],
  rename: (key: Buffer) => Buffer,
): readonly Buffer[] | undefined {
  const keys = keysOf(argv);
  if (keys === undefined) return undefined;
  const renamed = [...argv];
  for (const at of keys) renamed[at] = rename(argv[at] as Buffer);
  return renamed;
}
