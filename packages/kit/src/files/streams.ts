/** Helpers for the content of a file: whole lines, and gzip. */
import { Readable } from "node:stream";
import { createGunzip } from "node:zlib";

/**
 * The lines of a UTF-8 file, without their line ends. A last line without one counts too. Memory holds one
 * line and one chunk.
 */
export async function* lines(source: AsyncIterable<Buffer>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  let begun: string[] = []; // joined once: a line may go over very many chunks
  for await (const chunk of source) {
    const pieces = decoder.decode(chunk, { stream: true }).split("\n");
    const last = pieces.pop() ?? "";
    for (const piece of pieces) {
      begun.push(piece);
      const line = begun.join("");
      begun = [];
      yield line.endsWith("\r") ? line.slice(0, -1) : line;
    }
    begun.push(last);
  }
  begun.push(decoder.decode());
  const rest = begun.join("");
  if (rest !== "") yield rest;
}

/** The content of a gzip file. */
export async function* gunzip(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  const input = Readable.from(source, { objectMode: false });
  const output = createGunzip();
  input.on("error", (error) => output.destroy(error));
  try {
    for await (const chunk of input.pipe(output)) yield chunk as Buffer;
  } finally {
    input.destroy();
    output.destroy();
  }
}
