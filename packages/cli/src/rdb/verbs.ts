/** What `ropeway rdb ...` does. */
import { type FileHandle, open, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { JsonLines, type RdbEntry, RdbInspector, RdbReader } from "@ropeway/sync";
import type { Context } from "../context.ts";
import { UnreadableFileError } from "../errors.ts";
import { wholeNumber } from "../whole-number.ts";
import { progressBar } from "./progress-bar.ts";
import { printSummary } from "./summary.ts";

const CHUNK_BYTES = 1024 * 1024;
const PROGRESS_EVERY_MS = 100;
/** Pieces of JSON are collected up to this size before they are written. */
const WRITE_CHARACTERS = 64 * 1024;

async function inspect(context: Context): Promise<void> {
  const { options, output } = context;
  const top = wholeNumber(options, "top", 0) ?? 20;
  const depth = wholeNumber(options, "depth", 1) ?? 1;
  const delimiter = String(options.delimiter);
  const inspector = new RdbInspector(Date.now(), { top, depth, delimiter });
  await readRdb(context, async (entries) => {
    for (const entry of entries) inspector.add(entry);
  });
  output.result(inspector.summary, (summary) => printSummary(output, summary));
}

async function toJson(context: Context): Promise<void> {
  const lines = new JsonLines();
  let text = "";
  await readRdb(context, async (entries) => {
    for (const entry of entries) {
      for (const piece of lines.pieces(entry)) {
        text += piece;
        if (text.length < WRITE_CHARACTERS) continue;
        await context.output.data(text);
        text = "";
      }
    }
  });
  await context.output.data(text);
}

type Take = (entries: Iterable<RdbEntry>) => Promise<void>;

/** Reads the file that the command names. `take` gets the entries of each chunk. */
async function readRdb({ arguments: [path = ""], cwd, output, signal }: Context, take: Take) {
  const file = await openFile(resolve(cwd, path), path);
  try {
    const { size } = await file.stat();
    const reader = new RdbReader();
    const startedAt = performance.now();
    let shownAt = startedAt;
    for (let at = 0; !reader.finished && !output.unread.aborted; ) {
      signal.throwIfAborted();
      const chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES);
      const { bytesRead } = await file.read(chunk, 0, CHUNK_BYTES, at);
      if (bytesRead === 0) break;
      at += bytesRead;
      reader.push(chunk.subarray(0, bytesRead));
      await take(entriesOf(reader));
      const now = performance.now();
      if (now - shownAt < PROGRESS_EVERY_MS) continue;
      shownAt = now;
      output.progress(progressBar(at, size, now - startedAt));
    }
    if (!output.unread.aborted) reader.end();
  } finally {
    output.progress("");
    await file.close();
  }
}

function* entriesOf(reader: RdbReader): Generator<RdbEntry, void> {
  for (let entry = reader.next(); entry !== undefined; entry = reader.next()) yield entry;
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "file not found",
  EACCES: "this user may not read it",
};

async function openFile(path: string, as: string): Promise<FileHandle> {
  const unreadable = (error: NodeJS.ErrnoException) => {
    throw new UnreadableFileError(as, REASONS[error.code ?? ""] ?? error.message, error);
  };
  // Before it is opened: opening a pipe waits for a writer, and cannot be interrupted.
  const found = await stat(path).catch(unreadable);
  if (found.isDirectory()) throw new UnreadableFileError(as, "it is a folder");
  if (!found.isFile()) throw new UnreadableFileError(as, "it is a pipe or a device, not a file");
  return await open(path, "r").catch(unreadable);
}

type Verb = (context: Context) => Promise<void>;

export const verbs: { readonly inspect: Verb; readonly "to-json": Verb } = {
  inspect,
  "to-json": toJson,
};
