/** How a full disk shows: as an error of Node, in the log of a server, or by asking. */
import { statfs } from "node:fs/promises";

/** With less than this a server cannot write what it has to. */
const LEAST_BYTES = 1024 * 1024;

/** Whether the disk of a folder has no room left. */
export async function isFullDisk(folder: string): Promise<boolean> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize < LEAST_BYTES;
  } catch {
    return false; // a file system that does not tell
  }
}

/** Whether a file could not be written because its disk, or the user's share of it, is full. */
export function isDiskFull(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  return code === "ENOSPC" || code === "EDQUOT";
}

/** Whether a server says so in its log. */
export function tellsOfFullDisk(log: string): boolean {
  return /No space left on device|Disk quota exceeded/i.test(log);
}
