/** A file of this machine that is published. */
import { createReadStream } from "node:fs";
import { access, constants, stat } from "node:fs/promises";
import { InvalidArgumentError } from "@ropeway/core";

/**
 * How large a file is; undefined if the system does not know, as for a pipe. Throws InvalidArgumentError if the
 * file cannot be read, before receivers are told of it.
 */
export async function sizeOf(path: string): Promise<number | undefined> {
  const allowed = "the path of a file that can be read";
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) throw new InvalidArgumentError("source", path, allowed);
  if (found.isDirectory()) throw new InvalidArgumentError("source", path, "a file, not a folder");
  await access(path, constants.R_OK).catch(() => {
    throw new InvalidArgumentError("source", path, allowed);
  });
  return found.size > 0 ? found.size : undefined;
}

/**
 * The first `size` bytes of a file: one that is written to faster than it is sent would never end. Opens it when it
 * is read, so that the reader gets its errors.
 */
export async function* contentOf(path: string, size?: number): AsyncGenerator<Buffer, void> {
  yield* createReadStream(path, size === undefined ? {} : { end: size - 1 });
}
