/**
 * One file of the spool: consecutive blocks, written at the end and read from the start.
 *
 *   u32 LE length | u32 LE CRC-32 of the bytes | bytes
 */
import { randomBytes } from "node:crypto";
import { type FileHandle, open, unlink } from "node:fs/promises";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { SpoolError } from "../errors.ts";

const HEADER = 8;

/** An open, nameless file. */
export class Segment {
  readonly #file: FileHandle;
  #written = 0;
  #read = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  /** Creates a file in the folder and removes its name at once. */
  static async create(dir: string): Promise<Segment> {
    const path = join(dir, `ropeway-spool-${randomBytes(8).toString("hex")}`);
    const file = await open(path, "wx+", 0o600);
    await unlink(path);
    return new Segment(file);
  }

  /** The size of the file. */
  get written(): number {
    return this.#written;
  }

  async write(block: Buffer): Promise<void> {
    const header = Buffer.alloc(HEADER);
    header.writeUInt32LE(block.length, 0);
    header.writeUInt32LE(crc32(block), 4);
    let at = this.#written;
    for (const piece of [header, block]) {
      let done = 0;
      while (done < piece.length) {
        const { bytesWritten } = await this.#file.write(piece, done, piece.length - done, at);
        done += bytesWritten;
        at += bytesWritten;
      }
    }
    this.#written = at; // only now: a block that was partly written is written again at the same place
  }

  /** The next block; undefined if all blocks were read. */
  async read(): Promise<Buffer | undefined> {
    if (this.#read >= this.#written) return undefined;
    const header = await this.#bytes(HEADER, this.#read);
    const block = await this.#bytes(header.readUInt32LE(0), this.#read + HEADER);
    if (crc32(block) !== header.readUInt32LE(4)) {
      throw new SpoolError(`the block at byte ${this.#read} of a segment is damaged`, undefined);
    }
    this.#read += HEADER + block.length;
    return block;
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  async #bytes(length: number, position: number): Promise<Buffer> {
    const buffer = Buffer.allocUnsafeSlow(length);
    let done = 0;
    while (done < length) {
      const { bytesRead } = await this.#file.read(buffer, done, length - done, position + done);
      if (bytesRead === 0)
        throw new SpoolError(`a segment ends at byte ${position + done}`, undefined);
      done += bytesRead;
    }
    return buffer;
  }
}
