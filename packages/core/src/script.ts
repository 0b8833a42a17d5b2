/**
 * A Lua script of ours: read from its file once, called by its SHA-1 ever after.
 *
 * Every new link sends SCRIPT LOAD directly in front of a script's first EVALSHA, in the same write, so
 * there is neither a round trip for loading nor a NOSCRIPT in normal operation, and calls keep their order.
 * NOSCRIPT still happens (SCRIPT FLUSH): the link then repeats that call with EVAL, which loads again.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Reply } from "./reply.ts";

/** A script that can be run; `T` is what its caller gets. */
export interface Script<T = Reply> {
  readonly name: string;
  readonly source: string;
  readonly sha1: string;
  /** Whether a second run after an unknown outcome does no harm; such runs are repeated for you. */
  readonly idempotent: boolean;
  /** Bulk strings come back as Buffers, for replies that carry bytes of the application. */
  readonly binary: boolean;
  readonly parse: ((reply: Reply) => T) | undefined;
}

/** What a script can be given besides its file. */
export interface ScriptOptions<T> {
  /** Turns the raw reply into what the caller gets. */
  readonly parse?: (reply: Reply) => T;
  /** A second run after an unknown outcome does no harm. @default false */
  readonly idempotent?: boolean;
  /** Bulk strings in the reply are Buffers. @default false */
  readonly binary?: boolean;
  /** Files that stand in front of the script: functions that several scripts share. @default [] */
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
