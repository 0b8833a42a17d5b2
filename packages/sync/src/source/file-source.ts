/** Sources that are files: `file:dump.rdb`, `file:appendonlydir`, `https://host/dump.rdb`. */
import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { ConnectFailedError, RopewayError } from "@ropeway/core";
import { aofFiles } from "../aof/manifest.ts";
import { SourceFileError } from "../errors.ts";
import { fileChunks } from "../file-chunks.ts";
import { FileFeed, type FileFeedOptions } from "./file-feed.ts";
import type { Source } from "./source.ts";

/** Whether a URL means a file. */
export function isFileUrl(url: string): boolean {
  return /^(file:|https?:\/\/)/.test(url);
}

/** The source behind the URL of a file. */
export async function fileSource(url: string): Promise<Source> {
  const options = url.startsWith("file:") ? await localFile(url.slice(5)) : remoteFile(url);
  return {
    where: options.where,
    live: false,
    attach: (after) => FileFeed.open(options, after),
    fork: async () => undefined,
    connect: () => undefined,
    ownership: async () => () => true,
  };
}

/** Throws SourceFileError if the source is a local file that is not there. */
export async function checkFile(url: string): Promise<void> {
  if (url.startsWith("file:")) await localFile(url.slice(5));
}

async function localFile(text: string): Promise<FileFeedOptions> {
  const path = resolve(text.replace(/^\/\/(?=\/)/, ""));
  const unreadable = (error: unknown) => {
    // What the files say wrongly has an error of its own.
    throw error instanceof RopewayError ? error : new SourceFileError(path, error);
  };
  const files = /\.rdb$/i.test(path) ? [path] : await aofFiles(path).catch(unreadable);
  const identity = createHash("sha1");
  let bytes = 0;
  for (const file of files) {
    const { size, mtimeMs } = await stat(file).catch(unreadable);
    identity.update(JSON.stringify([file, size, mtimeMs]));
    bytes += size;
  }
  return {
    where: path,
    identity: `file-${identity.digest("hex")}`,
    bytes,
    async *chunks() {
      for (const file of files) yield* fileChunks(file);
    },
  };
}

function remoteFile(url: string): FileFeedOptions {
  const { origin, pathname } = new URL(url);
  const request = requestOf(url);
  return {
    where: `${origin}${pathname}`,
    identity: `url-${createHash("sha1").update(url).digest("hex")}`,
    bytes: undefined,
    async *chunks() {
      const response = await fetch(request.url, { headers: request.headers }).catch((error) => {
        throw new ConnectFailedError(`${origin}${pathname}`, error);
      });
      if (!response.ok || response.body === null) {
        throw new ConnectFailedError(
          `${origin}${pathname}`,
          new Error(`status ${response.status}`),
        );
      }
      for await (const chunk of response.body) yield Buffer.from(chunk);
    },
  };
}

/** fetch() refuses a URL with a password, and repeats it in its error: the password goes into a header. */
function requestOf(text: string): { readonly url: URL; readonly headers: Record<string, string> } {
  const url = new URL(text);
  const { username, password } = url;
  if (username === "" && password === "") return { url, headers: {} };
  url.username = "";
  url.password = "";
  const credentials = Buffer.from(`${decoded(username)}:${decoded(password)}`).toString("base64");
  return { url, headers: { authorization: `Basic ${credentials}` } };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a lone "%" means itself
  }
}
