/**
 * Sends one file in chunks.
 *
 *   read a chunk -> put it, if fewer than limitBytes are in Redis -> ... -> say how it ended -> wait for all
 *                       ^------ no room: wait until a receiver has one more ------'
 *
 * A chunk is stored once for all receivers, behind its SHA-256. A resumed sender reads its source from
 * the beginning, for the digest of the whole file, and skips what is in Redis or was received already, if its
 * digest is the same. It does so too when a failover of Redis has lost chunks (ChunksLostError).
 */
import { createHash, type Hash } from "node:crypto";
import { AbortedError, InvalidArgumentError } from "@ropeway/core";
import { newToken } from "@ropeway/core/internal";
import { Bell } from "../bell.ts";
import { kitMetrics } from "../metrics.ts";
import { SourceChangedError, TransferGoneError } from "./errors.ts";
import type { FilesOptions, Progress } from "./options.ts";
import type { FilesStore, Put } from "./store.ts";

/** How often a sender polls, for receivers that are gone and for lost wake-ups. */
const LOOK_MS = 1_000;

/** One file on its way. */
export interface Outgoing {
  readonly id: string;
  readonly name: string;
  readonly source: AsyncIterable<Buffer>;
  readonly total: number | undefined;
  /** Chunks that were sent before, Infinity for all; a resumed transfer begins there. */
  readonly next: number;
  /** The SHA-256 of these chunks, in hex; "" if it is not known. */
  readonly sentSha256: string;
  readonly onProgress: ((progress: Progress) => void) | undefined;
  readonly signal: AbortSignal;
}

/** Redis has forgotten chunks that it had. Only between sendFile() and its caller. */
export class ChunksLostError extends Error {}

/** How a file was sent. */
export interface Sent {
  readonly bytes: number;
  readonly sha256: string;
  /** Receivers that were away too long, and did not get all of it. */
  readonly dropped: number;
}

/** Sends a file and waits until every receiver has it or is dropped. */
export async function sendFile(
  store: FilesStore,
  file: Outgoing,
  { chunkBytes, limitBytes }: Required<FilesOptions>,
): Promise<Sent> {
  const { id, name, signal, total, onProgress } = file;
  const token = newToken();
  const bell = new Bell(signal);
  const most = Math.max(1, Math.floor(limitBytes / chunkBytes));
  const digest = createHash("sha256");
  store.wakes.expect(token, bell.ring);
  let index = 0;
  let bytes = 0;
  /** Repeats a step until there is room for it. */
  const persist = async (step: () => Promise<Put>, until: Put["status"][]): Promise<Put> => {
    for (;;) {
      if (signal.aborted) throw new AbortedError(`sending ${name}`, signal.reason);
      const put = await step();
      if (put.status === "unknown") throw new TransferGoneError(id);
      if (put.status === "lost") throw new ChunksLostError();
      if (put.status === "changed") throw new SourceChangedError(id);
      if (until.includes(put.status)) return put;
      await bell.wait(LOOK_MS);
    }
  };
  try {
    for await (const data of chunksOf(file.source, chunkBytes)) {
      if (index === file.next) requireSame(digest, file);
      digest.update(data);
      if (index >= file.next) {
        const sealed = Buffer.concat([createHash("sha256").update(data).digest(), data]);
        const chunk = { index, data: sealed, most, sentSha256: soFar(digest) };
        const step = () => store.put(id, chunk, token);
        const { status, dropped } = await persist(step, ["taken", "finished"]);
        // Finished early: no receiver is left.
        if (status !== "taken") return { bytes, sha256: "", dropped };
        kitMetrics().noteFile("sent", data.length);
      }
      index += 1;
      bytes += data.length;
      onProgress?.({ name, bytes, total });
    }
    if (index < file.next && Number.isFinite(file.next)) throw new SourceChangedError(id);
    if (index === file.next) requireSame(digest, file);
    if (total !== undefined && bytes !== total) throw new SourceChangedError(id);
    const sha256 = digest.digest("hex");
    const ended = { chunks: index, sha256, size: bytes };
    const first = await persist(() => store.end(id, ended, token), ["taken", "finished"]);
    const last =
      first.status === "finished"
        ? first
        : await persist(() => store.await(id, token), ["finished"]);
    return { bytes, sha256, dropped: last.dropped };
  } finally {
    store.wakes.forget(token);
    bell.close();
  }
}

/** Throws SourceChangedError if what was read so far is not what was sent before. */
function requireSame(digest: Hash, { id, sentSha256 }: Outgoing): void {
  if (sentSha256 !== "" && soFar(digest) !== sentSha256) throw new SourceChangedError(id);
}

function soFar(digest: Hash): string {
  return digest.copy().digest("hex");
}

/** Chunks of one size, the last one shorter, whatever the source yields. */
export async function* chunksOf(
  source: AsyncIterable<Buffer>,
  size: number,
): AsyncGenerator<Buffer, void> {
  let parts: Buffer[] = [];
  let length = 0;
  for await (const part of source) {
    if (!(part instanceof Uint8Array)) {
      throw new InvalidArgumentError("source", part, "an async iterable of Buffers");
    }
    parts.push(part);
    length += part.length;
    if (length < size) continue;
    let whole = Buffer.concat(parts);
    for (; whole.length >= size; whole = whole.subarray(size)) yield whole.subarray(0, size);
    parts = whole.length > 0 ? [whole] : [];
    length = whole.length;
  }
  if (length > 0) yield Buffer.concat(parts);
}
