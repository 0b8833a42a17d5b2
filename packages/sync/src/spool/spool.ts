/**
 * A byte queue between a source that must be read at wire speed and a target that may be slow. Redis
 * drops a replica whose output buffer grows too large (256 MB by default), and the full synchronisation that follows
 * makes the task even slower. So the spool keeps bytes that the target cannot accept yet.
 *
 *   append --> [ memory, up to memoryBytes ] --------------------------------------> read
 *          \                                                                        /
 *           '-> [ tail block ] --> [ segment files: (length, CRC-32, bytes)* ] ----'
 *
 * One rule keeps the order: while anything is on disk, new bytes go to disk; the reader empties the memory
 * first, then the disk. Disk is therefore used only while the target is behind.
 *
 * Segment files are unlinked as soon as they are open: the kernel frees them when the process ends,
 * for any reason. Nothing in the spool is needed after a crash, because the source is read again from
 * the checkpoint, which is older than everything here.
 *
 * At the limit `diskBytes`, and when the disk is full, append() waits for the reader. The source's own
 * buffer is then the next one to fill. If the disk has no room for a single block, only the memory is used: the reader
 * takes the tail directly.
 */
import { mkdir } from "node:fs/promises";
import { type Deferred, deferred } from "@ropeway/core/internal";
import { SpoolError } from "../errors.ts";
import { Segment } from "./segment.ts";

/** The limits of a spool. */
export interface SpoolOptions {
  /** The folder for segment files; created if it does not exist. */
  readonly dir: string;
  readonly memoryBytes: number;
  readonly diskBytes: number;
  /** The size of a block, which is written and checked as a whole. @default 1 MiB */
  readonly blockBytes?: number;
  /** The size at which a new segment file begins. @default 64 MiB */
  readonly segmentBytes?: number;
}

const MIB = 1024 * 1024;

/** The part of a segment that the spool uses. */
export type Blocks = Pick<Segment, "written" | "write" | "read" | "close">;
type CreateSegment = (dir: string) => Promise<Blocks>;

/** A byte queue with one writer and one reader. */
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
  /** Whether the tail is being written, so that the reader must wait for it. */
  #flushing = false;
  readonly #createSegment: CreateSegment;

  /** Tests pass segments on a full disk. */
  constructor(options: SpoolOptions, createSegment: CreateSegment = Segment.create) {
    this.#createSegment = createSegment;
    this.#options = { blockBytes: MIB, segmentBytes: 64 * MIB, ...options };
  }

  /** The number of bytes that have not been read. */
  get bytes(): number {
    return this.#memoryBytes + this.#diskBytes + this.#tailBytes;
  }

  /** The number of unread bytes that are on disk. */
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

  /** Marks the end of the input. A reader gets `error`, if there is one, after the last byte. */
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

  /** The next bytes if they are in memory; if undefined, there may still be bytes on disk. */
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

  /** Writes the tail as one block, one at a time, and waits while the disk is at its limit. */
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
        // On a full disk, waits as long as the reader can still free space.
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
    // The reader cannot have taken any of the tail meanwhile, because it reads the disk up to here first.
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
    // A tail shorter than a block is returned directly when nothing else is left.
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
