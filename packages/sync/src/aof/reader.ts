/**
 * Reads one AOF file from chunks of any size. It may begin with an RDB (a base file, or the preamble of
 * Redis 4 to 6); commands in RESP follow. `push` a chunk, then call `next` until it returns undefined.
 */
import { AofFormatError, RdbTruncatedError, RespFormatError } from "../errors.ts";
import type { RdbEntry } from "../rdb/entry.ts";
import type { RdbReaderOptions } from "../rdb/options.ts";
import { RdbReader } from "../rdb/reader.ts";
import { CommandReader, type WireCommand } from "../resp/command-reader.ts";

/** An item of an AOF. */
export type AofItem =
  | { readonly kind: "rdb"; readonly entry: RdbEntry }
  | { readonly kind: "command"; readonly command: WireCommand };

const LETTER_R = 0x52;
const LETTER_V = 0x56;

export class AofReader {
  readonly #file: string;
  readonly #rdb: RdbReader;
  readonly #commands = new CommandReader({ annotations: true });
  /** Undefined until the first byte has arrived. */
  #part: "rdb" | "commands" | undefined;
  #rdbBytes = 0;

  /** `file` is the name used in errors. */
  constructor(file: string, options: RdbReaderOptions = {}) {
    this.#file = file;
    this.#rdb = new RdbReader(options);
  }

  push(chunk: Buffer): void {
    if (chunk.length === 0) return;
    const first = chunk[0];
    this.#part ??= first === LETTER_R || first === LETTER_V ? "rdb" : "commands";
    if (this.#part === "rdb") this.#rdb.push(chunk);
    else this.#commands.push(chunk);
  }

  /** The next item, or undefined if more bytes are needed. Throws AofFormatError or an error of the RDB. */
  next(): AofItem | undefined {
    if (this.#part === "rdb") {
      const entry = this.#rdb.next();
      if (entry !== undefined) return { kind: "rdb", entry };
      if (!this.#rdb.finished) return undefined;
      this.#rdbBytes = this.#rdb.offset;
      this.#commands.push(this.#rdb.takeRest());
      this.#part = "commands";
    }
    try {
      const command = this.#commands.next();
      return command === undefined ? undefined : { kind: "command", command };
    } catch (error) {
      if (!(error instanceof RespFormatError)) throw error;
      const { problem } = error.details as { problem: string };
      throw new AofFormatError(this.#file, this.#rdbBytes + error.offset, problem);
    }
  }

  /** How many bytes of the file belong to the items that `next` has returned. */
  get offset(): number {
    return this.#rdbBytes + (this.#part === "rdb" ? this.#rdb.offset : this.#commands.offset);
  }

  /**
   * Marks the end of the file. A server that was killed may leave an incomplete command at the end of its last
   * file. With `truncatedAllowed` it is ignored, as servers do.
   */
  end({ truncatedAllowed = false }: { readonly truncatedAllowed?: boolean } = {}): void {
    if (this.#part === "rdb" && !this.#rdb.finished) throw new RdbTruncatedError(this.#rdb.offset);
    if (this.#commands.partial && !truncatedAllowed) {
      throw new AofFormatError(this.#file, this.offset, "the file ends in the middle of a command");
    }
  }
}
