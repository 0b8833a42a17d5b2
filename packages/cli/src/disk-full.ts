/** Detects a full disk: by an error of Node, by the log of a server, or by its free space. */
import { statfs } from "node:fs/promises";

/** With less free space than this, a server cannot write its files. */
const LEAST_BYTES = 1024 * 1024;

/** Whether the disk of a folder has no room left. */
export async function isFullDisk(folder: string): Promise<boolean> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize < LEAST_BYTES;
  } catch {
    return false; // a file system that does not report its free space
  }
}

/** Whether a file could not be written because its disk, or the user's share of it, is full. */
export function isDiskFull(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  return code === "ENOSPC" || code === "EDQUOT";
}

/** Whether the log of a server reports a full disk. */
export function tellsOfFullDisk(log: string): boolean {
  return /No space left on device|Disk quota exceeded/i.test(log);
}
