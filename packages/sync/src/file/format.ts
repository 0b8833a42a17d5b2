/**
 * The format of a target file, by its extension:
 *
 *   .rdb      the snapshot of the source, byte for byte; mode stock only, because an RDB has no commands
 *   .aof      commands, as redis-server loads them: those that build the keys, then those of the stream
 *   .jsonl    a line per key as `ropeway rdb to-json` prints it, then a line per command
 */
import { resolve } from "node:path";
import { InvalidOptionError } from "@ropeway/core";
import type { ResolvedSyncOptions } from "../options.ts";

/** The formats. */
export type FileFormat = "rdb" | "aof" | "jsonl";

const FORMAT = /\.(rdb|aof|jsonl)$/i;

/** A target that is a file. */
export interface FileEnd {
  readonly path: string;
  readonly format: FileFormat;
}

/** The file of `to`. Throws InvalidOptionError if its format does not fit the other options. */
export function fileEnd(options: ResolvedSyncOptions): FileEnd {
  const { to, mode } = options;
  const path = resolve(to.slice("file:".length).replace(/^\/\/(?=\/)/, ""));
  const format = FORMAT.exec(path)?.[1]?.toLowerCase() as FileFormat | undefined;
  if (format === undefined) {
    throw new InvalidOptionError("to", to, "a file that ends in .rdb, .aof or .jsonl");
  }
  if (format === "rdb") {
    if (mode !== "stock") {
      const allowed = '"stock" if the target is an RDB file, which has no place for changes';
      throw new InvalidOptionError("mode", mode, allowed);
    }
    for (const option of ["dbMap", "filter", "rename", "transform"] as const) {
      if (options[option] === undefined) continue;
      const allowed = "left out if the target is an RDB file. Use an .aof file instead";
      throw new InvalidOptionError(option, options[option], allowed);
    }
  }
  if (format === "jsonl" && options.transform !== undefined) {
    throw new InvalidOptionError("transform", options.transform, "left out for a .jsonl file");
  }
  return { path, format };
}
