/**
 * The documented wire: the whole content of a file under `<channel><name>`, its name as a message, and
 * `<channel><name>:done` as the number of receivers that are done. Numbers are compared as numbers; the
 * documented sender compares strings, and with ten receivers removes a file after the second.
 */
import { AbortedError, InvalidArgumentError } from "@ropeway/core";
import { Bell } from "../bell.ts";
import { SourceChangedError, TransferGoneError } from "./errors.ts";
import type { FilesOptions, Progress } from "./options.ts";
import type { Sent } from "./sender.ts";
import { chunksOf } from "./sender.ts";
import type { FilesStore } from "./store.ts";

/** Documented receivers send no wake-up, so the count is polled. */
const LOOK_MS = 100;
const BLOCK_BYTES = 131_072;

/** A file for documented receivers. */
export interface DocumentedFile {
  readonly id: string;
  readonly name: string;
  readonly source: AsyncIterable<Buffer>;
  readonly receivers: readonly string[];
  readonly total: number | undefined;
  readonly onProgress: ((progress: Progress) => void) | undefined;
  readonly signal: AbortSignal;
  /** Announces the file when its content is there. */
  announce(): Promise<unknown>;
}

/** Stores and announces a file, waits for all receivers or for the lease, and removes it. */
export async function sendDocumented(
  store: FilesStore,
  file: DocumentedFile,
  { limitBytes, leaseMs, keepMs }: Required<FilesOptions>,
): Promise<Sent> {
  const { name, signal, total } = file;
  let bytes = 0;
  await store.discard(name); // left by a sender that died
  try {
    for await (const block of chunksOf(file.source, BLOCK_BYTES)) {
      if (signal.aborted) throw new AbortedError(`sending ${name}`, signal.reason);
      bytes += block.length;
      if (bytes > limitBytes) {
        throw new InvalidArgumentError(
          "the file",
          name,
          `at most ${limitBytes} bytes on this wire`,
        );
      }
      await store.append(name, block);
      file.onProgress?.({ name, bytes, total });
    }
    if (total !== undefined && bytes !== total) throw new SourceChangedError(file.id);
    if (bytes === 0) await store.append(name, Buffer.alloc(0)); // no key means that the file was removed
    await store.name(name, file.receivers);
    await file.announce();
    const dropped = await countDown(store, file, { leaseMs, keepMs });
    return { bytes, sha256: "", dropped };
  } finally {
    await store.discard(name);
  }
}

/** Waits until all are done; returns how many were not when the lease ended. */
async function countDown(
  store: FilesStore,
  file: DocumentedFile,
  { leaseMs, keepMs }: Pick<Required<FilesOptions>, "leaseMs" | "keepMs">,
): Promise<number> {
  const { name, signal, receivers } = file;
  const bell = new Bell(signal);
  let until = performance.now() + leaseMs;
  let keepAt = 0;
  try {
    for (let known = 0; ; ) {
      if (signal.aborted) throw new AbortedError(`sending ${name}`, signal.reason);
      if (performance.now() >= keepAt) {
        await store.keep(name);
        keepAt = performance.now() + keepMs / 3;
      }
      const done = await store.doneCount(name);
      if (done >= receivers.length) return 0;
      if (done > known) until = performance.now() + leaseMs; // receivers are making progress
      known = done;
      if (performance.now() > until) return receivers.length - done;
      await bell.wait(LOOK_MS);
    }
  } finally {
    bell.close();
  }
}

/** The content of a documented file, in blocks. */
export async function* readDocumented(
  store: FilesStore,
  name: string,
  {
    onProgress,
    signal,
  }: Pick<DocumentedFile, "onProgress"> & { readonly signal: AbortSignal | undefined },
): AsyncGenerator<Buffer, void> {
  const total = (await store.contentLength(name)) ?? 0;
  for (let first = 0; first < total; ) {
    if (signal?.aborted) throw new AbortedError(`receiving ${name}`, signal.reason);
    const block = await store.contentRange(name, first, first + BLOCK_BYTES - 1);
    if (block.length === 0) throw new TransferGoneError(name); // the content is incomplete
    first += block.length;
    onProgress?.({ name, bytes: first, total });
    yield block;
  }
}
