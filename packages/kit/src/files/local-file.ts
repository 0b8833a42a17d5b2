/** A file of this machine that is published. */
import { createReadStream } from "node:fs";
import { access, constants, stat } from "node:fs/promises";
import { InvalidArgumentError } from "@ropeway/core";

/** How large a file is. Throws if it cannot be read, before anybody is told of it. */
export async function sizeOf(path: string): Promise<number> {
  const found = await stat(path);
  if (found.isDirectory()) throw new InvalidArgumentError("source", path, "a file, not a folder");
  await access(path, constants.R_OK);
  return found.size;
}

/** Opens the file when it is read, so that the reader gets its errors. */
export async function* contentOf(path: string): AsyncGenerator<Buffer, void> {
  yield* createReadStream(path);
}
