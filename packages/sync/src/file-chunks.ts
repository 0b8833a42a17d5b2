/** A file in chunks. Each chunk is new memory, so readers may keep views of it. */
import { open } from "node:fs/promises";

const CHUNK = 1024 * 1024;

export async function* fileChunks(path: string, from: number = 0): AsyncGenerator<Buffer, void> {
  const file = await open(path, "r");
  try {
    for (let at = from; ; ) {
      const chunk = Buffer.allocUnsafeSlow(CHUNK);
      const { bytesRead } = await file.read(chunk, 0, CHUNK, at);
      if (bytesRead === 0) return;
      at += bytesRead;
      yield chunk.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}
