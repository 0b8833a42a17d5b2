/** A handler that saves files into a folder, and goes on where a crash interrupted it. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { access, type FileHandle, mkdir, open, rename } from "node:fs/promises";
import { basename, join } from "node:path";
import { InvalidNameError } from "@ropeway/core";
import { CorruptFileError } from "./errors.ts";
import type { ReceivedFile } from "./received-file.ts";

/** The name of a file until it is complete. */
const PART = /^\..*\.part$/s;
/** The longest name that file systems accept. */
const MOST_NAME_BYTES = 255;

/**
 * Saves each file under the last part of its name. A file is `.<name>.part` until all of it is there and
 * its SHA-256 is right. Throws InvalidNameError for a name that a folder cannot hold, and CorruptFileError if
 * what was saved before a crash is gone.
 */
export function saveTo(folder: string): (file: ReceivedFile) => Promise<void> {
  return async (file) => {
    const name = basename(file.name);
    const special = name === "" || name === "." || name === "..";
    const long = Buffer.byteLength(name) > MOST_NAME_BYTES;
    if (special || long || name.includes("\0") || PART.test(name)) {
      throw new InvalidNameError("the name of a file", file.name, "a name that a folder can hold");
    }
    await mkdir(folder, { recursive: true });
    const part = join(folder, partOf(name));
    const target = join(folder, name);
    if (file.offset > 0 && !(await exists(part))) return checkSaved(target, file);
    const handle = await open(part, file.offset === 0 ? "w" : "r+");
    try {
      await handle.truncate(file.offset);
      let position = file.offset;
      for await (const chunk of file) {
        await writeAll(handle, chunk, position);
        await handle.datasync(); // asking for the next chunk lets this one be removed from Redis
        position += chunk.length;
      }
    } finally {
      await handle.close();
    }
    await check(part, file);
    await rename(part, target);
  };
}

/** A name may be so long that it leaves no room for more. */
function partOf(name: string): string {
  const part = `.${name}.part`;
  if (Buffer.byteLength(part) <= MOST_NAME_BYTES) return part;
  return `.${createHash("sha256").update(name).digest("hex")}.part`;
}

/** A full disk accepts a part of a write and refuses the next one. */
async function writeAll(handle: FileHandle, chunk: Buffer, position: number): Promise<void> {
  for (let done = 0; done < chunk.length; ) {
    const { bytesWritten } = await handle.write(chunk, done, chunk.length - done, position + done);
    done += bytesWritten;
  }
}

/** A crash came after the rename: the file must be there, whole. */
async function checkSaved(target: string, file: ReceivedFile): Promise<void> {
  for await (const _ of file)
    throw new CorruptFileError(file.name, "the part saved before a crash");
  await check(target, file);
}

async function check(path: string, file: ReceivedFile): Promise<void> {
  if (file.sha256 === undefined) return;
  const saved = await digestOf(path).catch((error) => {
    if (error.code !== "ENOENT") throw error;
    return ""; // somebody has removed it
  });
  if (saved !== file.sha256) throw new CorruptFileError(file.name, "the saved content");
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

async function digestOf(path: string): Promise<string> {
  const digest = createHash("sha256");
  for await (const chunk of createReadStream(path)) digest.update(chunk);
  return digest.digest("hex");
}
