/**
 * Which keys and commands are copied. The four ways to combine the two filters, accepting or refusing, are
 * those of RedisSyncer; its "or" really means or here.
 */
import { InvalidOptionError } from "@ropeway/core";

/** A glob such as `user:*`, or a regular expression for the whole key. */
export type KeyPattern = string | RegExp;

/** Filters for keys and commands. */
export interface KeyFilterOptions {
  /** Keys that match one of these. @default all */
  readonly keys?: readonly KeyPattern[];
  /** Names of commands, in either case; a key of a snapshot counts as RESTORE. @default all */
  readonly commands?: readonly string[];
  /** Copy what matches, or copy everything else. @default "accept" */
  readonly mode?: "accept" | "refuse";
  /** With both filters: a write matches if both do, or if one does. @default "and" */
  readonly combine?: "and" | "or";
}

/** Decides for one write. */
export interface KeyFilter {
  /** Whether the write of `command` to `key` is copied; undefined: the command has no key. */
  accepts(command: string, key: Buffer | undefined): boolean;
}

/** A filter that copies everything. */
export const everything: KeyFilter = { accepts: () => true };

/** Builds the filter. Throws InvalidOptionError for a pattern that is none. */
export function keyFilter(options: KeyFilterOptions | undefined): KeyFilter {
  if (options === undefined) return everything;
  const { keys, commands, mode = "accept", combine = "and" } = options;
  if (mode !== "accept" && mode !== "refuse") throw wrong("filter.mode", mode, "accept or refuse");
  if (combine !== "and" && combine !== "or") throw wrong("filter.combine", combine, "and or or");
  const patterns = keys?.map(toRegExp);
  const names = commands && new Set(commands.map((name) => String(name).trim().toUpperCase()));
  if (patterns === undefined && names === undefined) return everything;
  const matchesKey = (key: Buffer | undefined) => {
    if (key === undefined || patterns === undefined) return false;
    const text = key.toString("latin1");
    return patterns.some((pattern) => pattern.test(text));
  };
  const matches = (command: string, key: Buffer | undefined): boolean => {
    if (patterns === undefined) return names?.has(command) ?? true;
    // A command without a key is judged by its name alone.
    if (key === undefined) return names?.has(command) ?? mode === "accept";
    if (names === undefined) return matchesKey(key);
    return combine === "and"
      ? names.has(command) && matchesKey(key)
      : names.has(command) || matchesKey(key);
  };
  return { accepts: (command, key) => matches(command, key) === (mode === "accept") };
}

function toRegExp(pattern: KeyPattern): RegExp {
  if (pattern instanceof RegExp) {
    return new RegExp(`^(?:${pattern.source})$`, pattern.flags.replace(/[gy]/g, ""));
  }
  if (typeof pattern !== "string" || pattern === "") {
    throw wrong("filter.keys", pattern, "a glob such as user:* or a regular expression");
  }
  return globToRegExp(pattern);
}

/** Redis's own globs: `*`, `?`, `[a-z]`, `[^a]`, and a backslash before a character that is meant literally. */
export function globToRegExp(glob: string): RegExp {
  // Keys are compared as latin1, one character per byte.
  const bytes = Buffer.from(glob).toString("latin1");
  let source = "";
  for (let i = 0; i < bytes.length; i++) {
    const c = bytes[i] as string;
    if (c === "*") source += "[\\s\\S]*";
    else if (c === "?") source += "[\\s\\S]";
    else if (c === "\\" && i + 1 < bytes.length) source += quoted(bytes[++i] as string);
    else if (c === "[") {
      const end = bytes.indexOf("]", i + 2);
      if (end < 0) source += "\\[";
      else {
        const inside = bytes.slice(i + 1, end).replace(/[\\\]]/g, "\\$&");
        source += inside.startsWith("^") ? `[^${inside.slice(1)}]` : `[${inside}]`;
        i = end;
      }
    } else source += quoted(c);
  }
  return new RegExp(`^${source}$`);
}

function quoted(character: string): string {
  return character.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
}

function wrong(option: string, value: unknown, allowed: string): InvalidOptionError {
  return new InvalidOptionError(option, value, allowed);
}
