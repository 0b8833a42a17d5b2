/**
 * The manifest of a multi-part AOF (Redis 7.0 and later): which files belong to it, in which order.
 *
 *   file appendonly.aof.1.base.rdb seq 1 type b      the base: an RDB, or commands
 *   file appendonly.aof.3.incr.aof seq 3 type i      changes after the base, in the order of seq
 *   file appendonly.aof.2.incr.aof seq 2 type h      history: already replaced, to be deleted
 *
 * Names with special characters are quoted as redis-cli quotes them.
 */
import { readdir, readFile, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { AofFormatError } from "../errors.ts";

/** One file of a manifest. */
export interface AofFile {
  readonly name: string;
  readonly seq: number;
  readonly type: "base" | "incremental" | "history";
}

const TYPES: Readonly<Record<string, AofFile["type"]>> = {
  b: "base",
  i: "incremental",
  h: "history",
};

/** Reads a manifest. `name` is for errors. Throws AofFormatError. */
export function parseManifest(text: string, name: string): AofFile[] {
  const files: AofFile[] = [];
  let offset = 0;
  for (const line of text.split("\n")) {
    if (line.trim() !== "" && !line.startsWith("#")) files.push(parseLine(line, name, offset));
    offset += Buffer.byteLength(line) + 1;
  }
  if (files.filter(({ type }) => type === "base").length > 1) {
    throw new AofFormatError(name, 0, "it has more than one base file");
  }
  return files;
}

function parseLine(line: string, name: string, offset: number): AofFile {
  const words = wordsOf(line);
  const pairs = new Map<string, string>();
  for (let i = 0; i + 1 < words.length; i += 2)
    pairs.set(words[i] as string, words[i + 1] as string);
  const file = pairs.get("file");
  const seq = Number(pairs.get("seq") ?? Number.NaN);
  const type = TYPES[pairs.get("type") ?? ""];
  if (file === undefined || type === undefined || !Number.isSafeInteger(seq) || seq < 1) {
    throw new AofFormatError(name, offset, `the line ${JSON.stringify(line)} names no file`);
  }
  // A file name must not lead out of the folder.
  if (basename(file) !== file) throw new AofFormatError(name, offset, `${file} is not a file name`);
  return { name: file, seq, type };
}

/** Splits a line into words, some of which may be in double quotes with escapes. */
function wordsOf(line: string): string[] {
  const words: string[] = [];
  for (const [, quoted, plain] of line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)) {
    words.push(quoted === undefined ? (plain as string) : unquoted(quoted));
  }
  return words;
}

const ESCAPES: Readonly<Record<string, string>> = {
  n: "\n",
  r: "\r",
  t: "\t",
  a: "\x07",
  b: "\b",
};

function unquoted(text: string): string {
  const bytes = text.replace(/\\(?:x([0-9a-fA-F]{2})|(.))/g, (_, code, character) =>
    code ? String.fromCharCode(Number.parseInt(code, 16)) : (ESCAPES[character] ?? character),
  );
  return Buffer.from(bytes, "latin1").toString();
}

/**
 * The files of an AOF in reading order. `path` is the folder of a multi-part AOF,
 * its manifest, or a single AOF file.
 */
export async function aofFiles(path: string): Promise<string[]> {
  if ((await stat(path)).isDirectory()) {
    const manifests = (await readdir(path)).filter((name) => name.endsWith(".manifest"));
    if (manifests.length !== 1) {
      throw new AofFormatError(
        path,
        0,
        `the folder has ${manifests.length} manifests instead of 1`,
      );
    }
    return aofFiles(join(path, manifests[0] as string));
  }
  if (!path.endsWith(".manifest")) return [path];
  const files = parseManifest(await readFile(path, "utf8"), path);
  const base = files.filter(({ type }) => type === "base");
  const rest = files.filter(({ type }) => type === "incremental").sort((a, b) => a.seq - b.seq);
  return [...base, ...rest].map(({ name }) => join(dirname(path), name));
}
