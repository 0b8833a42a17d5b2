/** How a full disk shows: as an error of Node, or in the log of a server. */

/** Whether a file could not be written because its disk, or the user's share of it, is full. */
export function isDiskFull(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  return code === "ENOSPC" || code === "EDQUOT";
}

/** Whether a server says so in its log. */
export function tellsOfFullDisk(log: string): boolean {
  return /No space left on device|Disk quota exceeded/i.test(log);
}
