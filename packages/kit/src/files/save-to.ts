/** A handler that saves files into a folder, and goes on where a crash interrupted it. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, rename } from "node:fs/promises";
import { basename, join } from "node:path";
import { InvalidNameError } from "@ropeway/core";
import { CorruptFileError } from "./errors.ts";
import type { ReceivedFile } from "./files.ts";

/**
 * Saves each file under the last part of its name. A file is `<name>.part` until all of it is there and
 * its SHA-256 is right.
 */
export function saveTo(folder: string): (file: ReceivedFile) => Promise<void> {
  return async (file) => {
    const name = basename(file.name);
    if (name === "" || name === "." || name === ".." || name.includes("\0")) {
      throw new InvalidNameError("the name of a file", file.name, "a name that a folder can hold");
    }
    await mkdir(folder, { recursive: true });
    const part = join(folder, `${name}.part`);
    const handle = await open(part, file.offset === 0 ? "w" : "r+");
    try {
      await handle.truncate(file.offset);
      let position = file.offset;
      for await (const chunk of file) {
        await handle.write(chunk, 0, chunk.length, position);
        await handle.datasync(); // asking for the next chunk lets this one be removed from Redis
        position += chunk.length;
      }
    } finally {
      await handle.close();
    }
    if (file.sha256 !== undefined && (await digestOf(part)) !== file.sha256) {
      throw new CorruptFileError(file.name, "the saved content");
    }
    await rename(part, join(folder, name));
  };
}

async function digestOf(path: string): Promise<string> {
  const digest = createHash("sha256");
  for await (const chunk of createReadStream(path)) digest.update(chunk);
  return digest.digest("hex");
}
