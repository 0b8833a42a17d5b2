/**
 * A byte queue between a source that must be read at wire speed and a target that may be slow. Redis
 * drops a replica whose output buffer grows too large (256 MB by default), and the full sync that follows
 * makes it slower still; so what the target cannot take yet waits here.
 *
 *   append --> [ memory, up to memoryBytes ] --------------------------------------> read
 *          \                                                                        /
 *           '-> [ tail block ] --> [ segment files: (length, CRC-32, bytes)* ] ----'
 *
 * Order is kept by one rule: while anything is on disk, new bytes go to disk; the reader empties the memory
 * first, then the disk. Disk is therefore used only while the target is behind.
 *
 * Segment files are unlinked as soon as they are open: the kernel frees them when the process ends,
 * however it ends. Nothing in the spool is needed after a crash, because the source is asked again from
 * the checkpoint, which is older than everything here.
 *
 * At the bound `diskBytes`, and when the disk is full, append() waits for the reader. The source's own
 * buffer is then the next one to fill. A disk without room for a single block leaves the memory: the tail is then
 * given to the reader as it is.
 */
import { mkdir } from "node:fs/promises";
import { type Deferred, deferred } from "@ropeway/core/internal";
import { SpoolError } from "../errors.ts";
import { Segment } from "./segment.ts";

/** The bounds of a spool. */
export interface SpoolOptions {
  /** The folder for segment files; made if it does not exist. */
  readonly dir: string;
  readonly memoryBytes: number;
  readonly diskBytes: number;
  /** The size of a block: what is written and checked at once. @default 1 MiB */
  readonly blockBytes?: number;
  /** The size at which a new segment file begins. @default 64 MiB */
  readonly segmentBytes?: number;
}

const MIB = 1024 * 1024;

/** What the spool uses of a segment. */
export type Blocks = Pick<Segment, "written" | "write" | "read" | "close">;
type CreateSegment = (dir: string) => Promise<Blocks>;

/** One writer, one reader. */
export class Spool {
  readonly #options: Required<SpoolOptions>;
  readonly #memory: Buffer[] = [];
  #memoryBytes = 0;
  #segments: Blocks[] = [];
  #tail: Buffer[] = [];
  #tailBytes = 0;
  #diskBytes = 0;
  #ended = false;
  #failure: unknown;
  #readable: Deferred<void> | undefined;
  #room: Deferred<void> | undefined;
  #writing: Promise<void> = Promise.resolve();
  /** The tail is being written, so the reader must wait for it. */
  #flushing = false;
  readonly #createSegment: CreateSegment;

  /** Tests give segments on a disk that is full. */
  constructor(options: SpoolOptions, createSegment: CreateSegment = Segment.create) {
    this.#createSegment = createSegment;
    this.#options = { blockBytes: MIB, segmentBytes: 64 * MIB, ...options };
  }

  /** Bytes that wait for the reader. */
  get bytes(): number {
    return this.#memoryBytes + this.#diskBytes + this.#tailBytes;
  }

  /** Bytes of these that are on disk. */
  get spilled(): number {
    return this.#diskBytes;
  }

  /** Adds bytes. Resolves when there is room for more. The chunk must not change afterwards. */
  async append(chunk: Buffer): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    if (chunk.length === 0) return;
    const toDisk = this.#spilling || this.#memoryBytes + chunk.length > this.#options.memoryBytes;
    if (!toDisk || (this.#memory.length === 0 && !this.#spilling)) {
      this.#memory.push(chunk);
      this.#memoryBytes += chunk.length;
      this.#wakeReader();
      return;
    }
    this.#tail.push(chunk);
    this.#tailBytes += chunk.length;
    this.#wakeReader();
    if (this.#tailBytes >= this.#options.blockBytes) await this.#flushTail();
  }

  /** Nothing more will be appended; a reader gets `error` after the last byte, if there is one. */
  end(error?: unknown): void {
    this.#ended = true;
    this.#failure ??= error;
    this.#wakeReader();
  }

  /** The next bytes, in order; undefined after the last ones. Rejects when the signal aborts. */
  async read(signal?: AbortSignal): Promise<Buffer | undefined> {
    for (;;) {
      const chunk = this.readNow() ?? (await this.#readDisk());
      if (chunk !== undefined) return chunk;
      if (!this.#flushing) {
        if (this.#failure !== undefined) throw this.#failure;
        if (this.#ended) return undefined;
      }
      await this.#untilReadable(signal);
    }
  }

  /** The next bytes if they are in memory; undefined says nothing about the disk. */
  readNow(): Buffer | undefined {
    const chunk = this.#memory.shift();
    if (chunk === undefined) return undefined;
    this.#memoryBytes -= chunk.length;
    return chunk;
  }

  /** Drops everything and frees the disk. */
  async close(): Promise<void> {
    this.end(new SpoolError("closed", undefined));
    this.#memory.length = 0;
    this.#memoryBytes = 0;
    this.#releaseRoom();
    await this.#writing.catch(() => {});
    await this.#dropSegments();
    this.#tail = [];
    this.#tailBytes = 0;
    this.#diskBytes = 0;
  }

  get #spilling(): boolean {
    return this.#diskBytes > 0 || this.#tailBytes > 0;
  }

  /** Writes the tail as one block, one at a time, and waits while the disk is at its bound. */
  #flushTail(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#writeTail());
    return this.#writing;
  }

  async #writeTail(): Promise<void> {
    if (this.#tailBytes === 0 || this.#failure !== undefined) return;
    this.#flushing = true;
    try {
      await this.#writeBlock();
    } finally {
      this.#flushing = false;
      this.#wakeReader();
    }
  }

  async #writeBlock(): Promise<void> {
    let emptied = false;
    const block = this.#tail.length === 1 ? (this.#tail[0] as Buffer) : Buffer.concat(this.#tail);
    for (;;) {
      if (this.#diskBytes > 0 && this.#diskBytes + block.length > this.#options.diskBytes) {
        await this.#untilRoom();
        if (this.#failure !== undefined) return;
        continue;
      }
      try {
        await (await this.#segment()).write(block);
        break;
      } catch (error) {
        if ((error as { code?: string }).code !== "ENOSPC") {
          this.#failure = new SpoolError(`cannot write to ${this.#options.dir}`, error);
          throw this.#failure;
        }
        // A full disk is waited out as long as the reader still has something to free.
        if (this.#diskBytes > 0) await this.#untilRoom();
        else if (!emptied) {
          emptied = true;
          await this.#dropSegments(); // everything in them was read
        } else {
          this.#flushing = false;
          this.#wakeReader();
          await this.#untilRoom();
          return;
        }
        if (this.#failure !== undefined) return;
      }
    }
    // The reader may have taken nothing of the tail meanwhile: it reads the disk up to here first.
    this.#tail =
      this.#tailBytes === block.length ? [] : [Buffer.concat(this.#tail).subarray(block.length)];
    this.#tailBytes -= block.length;
    this.#diskBytes += block.length;
  }

  async #dropSegments(): Promise<void> {
    for (const segment of this.#segments.splice(0)) await segment.close();
  }

  async #segment(): Promise<Blocks> {
    const last = this.#segments.at(-1);
    if (last !== undefined && last.written < this.#options.segmentBytes) return last;
    await mkdir(this.#options.dir, { recursive: true });
    const next = await this.#createSegment(this.#options.dir);
    this.#segments.push(next);
    return next;
  }

  async #readDisk(): Promise<Buffer | undefined> {
    if (!this.#spilling) return undefined;
    // A tail that is short of a block is taken as it is, once it is all there is.
    if (this.#diskBytes === 0) return this.#flushing ? undefined : this.#takeTail();
    const segment = this.#segments[0] as Blocks;
    const block = await segment.read();
    if (block === undefined) {
      this.#segments.shift();
      await segment.close();
      return this.#readDisk();
    }
    this.#diskBytes -= block.length;
    this.#releaseRoom();
    return block;
  }

  #takeTail(): Buffer | undefined {
    if (this.#tailBytes === 0) return undefined;
    const chunk = Buffer.concat(this.#tail);
    this.#tail = [];
    this.#tailBytes = 0;
    this.#releaseRoom();
    return chunk;
  }

  async #untilReadable(signal: AbortSignal | undefined): Promise<void> {
    this.#readable ??= deferred();
    const { promise } = this.#readable;
    if (signal === undefined) return promise;
    signal.throwIfAborted();
    const onAbort = () => this.#wakeReader();
    signal.addEventListener("abort", onAbort, { once: true });
    await promise;
    signal.removeEventListener("abort", onAbort);
    signal.throwIfAborted();
  }

  #untilRoom(): Promise<void> {
    this.#room ??= deferred();
    return this.#room.promise;
  }

  #wakeReader(): void {
    this.#readable?.resolve();
    this.#readable = undefined;
  }

  #releaseRoom(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }
}
