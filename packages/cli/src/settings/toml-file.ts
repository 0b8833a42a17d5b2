/** A settings file, read into keys and their line numbers. */
import { basename, dirname } from "node:path";
import { parse, TomlError } from "smol-toml";
import { UnreadableFileError } from "../errors.ts";
import { fileText } from "../file-text.ts";

/** One `key = value` of the file; a section in brackets is part of the key. */
export interface TomlEntry {
  readonly key: string;
  readonly value: unknown;
  /** Such as ropeway.toml:4. */
  readonly where: string;
}

/** A file's entries and the folder that its relative paths start at. */
export interface TomlFile {
  readonly entries: readonly TomlEntry[];
  readonly folder: string;
}

/** Reads a file of settings; throws UnreadableFileError with the line of the first mistake. */
export function readTomlFile(path: string): TomlFile {
  const name = basename(path);
  const source = fileText(path);
  let root: Record<string, unknown>;
  try {
    root = parse(source);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const [what = ""] = error.message.split("\n", 1);
    const why = what.replace(/^Invalid TOML document: /, "");
    throw new UnreadableFileError(`${name}:${error.line}:${error.column}`, why, error);
  }
  const lines = linesOf(source);
  const entries = leavesOf(root, "").map(({ key, value }) => {
    const line = lines.get(key);
    return { key, value, where: line === undefined ? name : `${name}:${line}` };
  });
  return { entries, folder: dirname(path) };
}

/** An empty table counts as a leaf, so that a misspelt section is noticed even then. */
function leavesOf(node: object, path: string): { key: string; value: unknown }[] {
  return Object.entries(node).flatMap(([name, value]) => {
    const key = path === "" ? name : `${path}.${name}`;
    const inner = isTable(value) ? leavesOf(value, key) : [];
    return inner.length > 0 ? inner : [{ key, value }];
  });
}

/** Whether a value is a section of its own, and not a list or a date. */
export function isTable(value: unknown): value is object {
  const isObject = typeof value === "object" && value !== null;
  return isObject && !Array.isArray(value) && !(value instanceof Date);
}

/**
 * The line of each key. The parser does not report lines, so this looks for headers and assignments at the
 * beginning of lines, which finds every key that is written the usual way; for another one (a dotted
 * key in quotes, say) a message names the file without a line.
 */
function linesOf(source: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  let section = "";
  for (const [index, line] of source.split("\n").entries()) {
    const header = /^\s*\[\s*([\w.-]+)\s*\]/.exec(line)?.[1];
    if (header !== undefined) {
      section = header;
      found.set(section, index + 1);
      continue;
    }
    const name = /^\s*([\w.-]+)\s*=/.exec(line)?.[1];
    if (name !== undefined) found.set(section === "" ? name : `${section}.${name}`, index + 1);
  }
  return found;
}
