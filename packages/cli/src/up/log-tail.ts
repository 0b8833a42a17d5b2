/** The end of a server's log, which is the only place with the reason why it ended. */
import { open, stat } from "node:fs/promises";

const MOST_BYTES = 8_192;

/** How long the log is now; 0 if there is none. */
export function logSize(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}

/** What was written since the log was `from` bytes long; the end of it if that is much. */
export async function logSince(path: string, from: number): Promise<string> {
  await using file = await open(path);
  const { size } = await file.stat();
  const start = Math.max(from, size - MOST_BYTES);
  if (size <= start) return "";
  const buffer = Buffer.alloc(size - start);
  const { bytesRead } = await file.read(buffer, { position: start });
  return buffer.toString("utf8", 0, bytesRead).trim();
}

/** The last line, without the pid and time that Redis puts in front. */
export function lastLine(text: string): string {
  const line = text.split("\n").at(-1) ?? "";
  return line.replace(/^\d+:\w .*? [#*.-] /, "").replace(/\.$/, "");
}
