/**
 * The feed of a file: an RDB, an AOF, or an AOF that begins with an RDB; in a folder, at a URL, or in parts.
 * The first bytes determine the kind.
 *
 *   REDIS..., VALKEY...   a snapshot up to its EOF opcode, then commands if there are more bytes
 *   anything else         commands
 *
 * Commands are counted in bytes from the first one, as in a replication stream, so that a task that was
 * interrupted continues where it was. The identity of the file takes the place of the replication id.
 */
import type { Position } from "../checkpoint.ts";
import { RdbReader } from "../rdb/reader.ts";
import { CommandReader } from "../resp/command-reader.ts";
import type { Feed, Snapshot } from "./feed.ts";

/** The file to read. */
export interface FileFeedOptions {
  readonly where: string;
  /** Identifies the content; other content has another identity. Called when the first bytes have arrived. */
  identity(): string;
  /** The size, if known. */
  readonly bytes: number | undefined;
  /** All bytes, in order. Each call starts from the beginning. */
  chunks(): AsyncIterable<Buffer>;
}

const EMPTY = Buffer.alloc(0);

/** Reads a snapshot, and the commands after it, from files. */
export class FileFeed implements Feed {
  readonly where: string;
  readonly replid: string;
  readonly live = false;
  readonly snapshot: Snapshot | undefined;
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #commands = new CommandReader({ annotations: true });
  #rest: Buffer;
  /** The number of command bytes to skip, because the target has them. */
  #skip: number;
  #received = 0;
  #ended = false;

  private constructor(
    options: FileFeedOptions,
    opened: {
      chunks: AsyncIterator<Buffer>;
      first: Buffer;
      identity: string;
      skip: number | undefined;
    },
  ) {
    this.where = options.where;
    this.replid = opened.identity;
    this.#chunks = opened.chunks;
    this.#rest = opened.first;
    this.#skip = opened.skip ?? 0;
    if (!isRdb(opened.first) || opened.skip !== undefined) return;
    const splitter = new RdbReader({ checksum: false });
    const read = () => this.#readSnapshot(splitter);
    this.snapshot = { replid: this.replid, offset: 0, db: 0, bytes: options.bytes, read };
  }

  /** Opens the file. After a position of the same file, only the commands that follow it are returned. */
  static async open(options: FileFeedOptions, after: Position | undefined): Promise<FileFeed> {
    const chunks = options.chunks()[Symbol.asyncIterator]();
    const { value } = await chunks.next();
    const first = value ?? EMPTY;
    const identity = options.identity();
    const resumed = after !== undefined && after.replid === identity;
    const skip = resumed ? after.offset : undefined;
    const feed = new FileFeed(options, { chunks, first, identity, skip });
    if (resumed && isRdb(first)) await feed.#skipSnapshot();
    return feed;
  }

  get waiting(): number {
    return 0;
  }

  get received(): number {
    return this.#received;
  }

  async read(): Promise<Buffer | undefined> {
    for (;;) {
      const chunk = await this.#next();
      if (chunk === undefined) return undefined;
      this.#commands.push(chunk);
      const pieces: Buffer[] = [];
      for (let command = this.#commands.next(); command; command = this.#commands.next()) {
        this.#received += command.raw.length;
        if (this.#skip > 0) this.#skip -= command.raw.length;
        else pieces.push(command.raw);
      }
      if (pieces.length > 0) return Buffer.concat(pieces);
    }
  }

  readNow(): Buffer | undefined {
    return undefined;
  }

  acknowledge(): void {}

  /** The only goal is the end of the file. */
  async end(): Promise<number> {
    return Number.POSITIVE_INFINITY;
  }

  async close(): Promise<void> {
    await this.#chunks.return?.();
  }

  async #next(): Promise<Buffer | undefined> {
    if (this.#rest.length > 0) {
      const chunk = this.#rest;
      this.#rest = EMPTY;
      return chunk;
    }
    if (this.#ended) return undefined;
    const { value, done } = await this.#chunks.next();
    this.#ended = done === true;
    return this.#ended ? undefined : value;
  }

  /** The next bytes of the snapshot. Bytes after its end are left for read(). */
  async #readSnapshot(splitter: RdbReader): Promise<Buffer | undefined> {
    if (splitter.finished) return undefined;
    const chunk = await this.#next();
    if (chunk === undefined) return undefined;
    splitter.push(chunk);
    while (splitter.next() !== undefined);
    if (!splitter.finished) return chunk;
    this.#rest = Buffer.from(splitter.takeRest());
    return chunk.subarray(0, chunk.length - this.#rest.length);
  }

  async #skipSnapshot(): Promise<void> {
    const splitter = new RdbReader({ checksum: false });
    while ((await this.#readSnapshot(splitter)) !== undefined);
  }
}

function isRdb(first: Buffer): boolean {
  const head = first.toString("latin1", 0, 6);
  return head.startsWith("REDIS") || head === "VALKEY";
}
