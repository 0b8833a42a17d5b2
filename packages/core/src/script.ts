/**
 * A Lua script of Ropeway: read from its file once, then called by its SHA-1.
 *
 * Every new link sends SCRIPT LOAD directly before a script's first EVALSHA, in the same write. So
 * loading needs no round trip, NOSCRIPT does not occur in normal operation, and calls keep their order.
 * After a SCRIPT FLUSH, NOSCRIPT occurs: the link then repeats that call with EVAL, which loads the script again.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Reply } from "./reply.ts";

/** A script that can be run; `T` is the type of its result. */
export interface Script<T = Reply> {
  readonly name: string;
  readonly source: string;
  readonly sha1: string;
  /** Whether a second run after an unknown outcome is harmless. Such runs are repeated automatically. */
  readonly idempotent: boolean;
  /** Return bulk strings as Buffers, for replies that carry bytes of the application. */
  readonly binary: boolean;
  readonly parse: ((reply: Reply) => T) | undefined;
}

/** The options of a script. */
export interface ScriptOptions<T> {
  /** Converts the raw reply to the result. */
  readonly parse?: (reply: Reply) => T;
  /** Whether a second run after an unknown outcome is harmless. @default false */
  readonly idempotent?: boolean;
  /** Bulk strings in the reply are Buffers. @default false */
  readonly binary?: boolean;
  /** Files that are prepended to the script: functions that several scripts share. @default [] */
  readonly prelude?: readonly URL[];
}

/** Reads a script from a file: `defineScript(new URL("../lua/push.lua", import.meta.url))`. */
export function defineScript<T = Reply>(file: URL, options: ScriptOptions<T> = {}): Script<T> {
  const files = [...(options.prelude ?? []), file];
  const source = files.map((part) => readFileSync(part, "utf8")).join("\n");
  return {
    name: file.pathname.replace(/^.*\/|\.lua$/g, ""),
    source,
    sha1: createHash("sha1").update(source).digest("hex"),
    idempotent: options.idempotent ?? false,
    binary: options.binary ?? false,
    parse: options.parse,
  };
}
