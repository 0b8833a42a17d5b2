/** Sources that are files: `file:dump.rdb`, `file:appendonlydir`, `https://host/dump.rdb`. */
import { createHash, randomUUID } from "node:crypto";
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

/** How files are read from HTTP servers. */
export interface RemoteOptions {
  /** A server that sends nothing for this long is treated as lost. */
  readonly silenceMs: number;
  readonly signal: AbortSignal;
}

/** The source for the URL of a file. */
export async function fileSource(url: string, remote: RemoteOptions): Promise<Source> {
  const isLocal = url.startsWith("file:");
  const options = isLocal ? await localFile(url.slice(5)) : remoteFile(url, remote);
  return {
    where: options.where,
    live: false,
    attach: (after) => FileFeed.open(options, after),
    fork: async () => undefined,
    connect: () => undefined,
    ownership: async () => () => true,
  };
}

/** Throws SourceFileError if the source is a local file that does not exist. */
export async function checkFile(url: string): Promise<void> {
  if (url.startsWith("file:")) await localFile(url.slice(5));
}

async function localFile(text: string): Promise<FileFeedOptions> {
  const path = resolve(text.replace(/^\/\/(?=\/)/, ""));
  const unreadable = (error: unknown) => {
    // Errors in the content of the files have their own classes.
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
  const name = `file-${identity.digest("hex")}`;
  return {
    where: path,
    identity: () => name,
    bytes,
    async *chunks() {
      for (const file of files) yield* fileChunks(file);
    },
  };
}

function remoteFile(url: string, { silenceMs, signal }: RemoteOptions): FileFeedOptions {
  const { origin, pathname } = new URL(url);
  const request = requestOf(url);
  const where = `${origin}${pathname}`;
  let identity = "";
  return {
    where,
    identity: () => identity,
    bytes: undefined,
    async *chunks() {
      const silent = new AbortController();
      const either = AbortSignal.any([silent.signal, signal]);
      /** Waits for the server, but no longer than for any other source. */
      const patiently = async <T>(wait: Promise<T>): Promise<T> => {
        const reason = new Error(`the server was silent for ${silenceMs} ms`);
        const timer = setTimeout(() => silent.abort(reason), silenceMs);
        return await wait.finally(() => clearTimeout(timer));
      };
      const response = await patiently(
        fetch(request.url, { headers: request.headers, signal: either }),
      ).catch((error) => {
        throw new ConnectFailedError(where, underlying(error));
      });
      if (!response.ok || response.body === null) {
        throw new ConnectFailedError(where, new Error(`status ${response.status}`));
      }
      identity = identityOf(url, response.headers);
      const reader = response.body.getReader();
      try {
        for (;;) {
          const { value, done } = await patiently(reader.read());
          if (done) return;
          yield Buffer.from(value);
        }
      } catch (error) {
        throw signal.aborted ? error : new SourceFileError(where, underlying(error));
      } finally {
        await reader.cancel().catch(() => {});
      }
    },
  };
}

/** The content at a URL may change. If the server does not identify it, each request gets a new identity. */
function identityOf(url: string, headers: Headers): string {
  const [etag, modified] = [headers.get("etag"), headers.get("last-modified")];
  const version = etag ?? modified ?? randomUUID();
  const content = JSON.stringify([url, version, headers.get("content-length")]);
  return `url-${createHash("sha1").update(content).digest("hex")}`;
}

/** The cause that fetch() hides behind "fetch failed" and "terminated". */
function underlying(error: unknown): unknown {
  return error instanceof TypeError && error.cause instanceof Error ? error.cause : error;
}

/** fetch() refuses a URL with a password, and repeats it in its error, so the password goes into a header. */
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
    return part; // a single "%" means itself
  }
}
