/** Helpers for the content of a file: whole lines, and gzip. */
import { Readable } from "node:stream";
import { createGunzip } from "node:zlib";

/** The lines of a UTF-8 file, without their line ends. A last line without one counts too. */
export async function* lines(source: AsyncIterable<Buffer>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of source) {
    const whole = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = whole.pop() ?? "";
    for (const line of whole) yield line.endsWith("\r") ? line.slice(0, -1) : line;
  }
  rest += decoder.decode();
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
