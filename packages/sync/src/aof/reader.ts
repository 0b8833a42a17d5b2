/**
 * Reads one AOF file out of chunks of any size. It may begin with an RDB (a base file, or the preamble of
 * Redis 4 to 6); commands in RESP follow. `push` a chunk, then call `next` until it returns undefined.
 */
import { AofFormatError, RdbTruncatedError, RespFormatError } from "../errors.ts";
import type { RdbEntry } from "../rdb/entry.ts";
import type { RdbReaderOptions } from "../rdb/options.ts";
import { RdbReader } from "../rdb/reader.ts";
import { CommandReader, type WireCommand } from "../resp/command-reader.ts";

/** What an AOF consists of. */
export type AofItem =
  | { readonly kind: "rdb"; readonly entry: RdbEntry }
  | { readonly kind: "command"; readonly command: WireCommand };

const LETTER_R = 0x52;
const LETTER_V = 0x56;

export class AofReader {
  readonly #file: string;
  readonly #rdb: RdbReader;
  readonly #commands = new CommandReader({ annotations: true });
  /** Undefined until the first byte is there. */
  #part: "rdb" | "commands" | undefined;
  #rdbBytes = 0;

  /** `file` is for errors. */
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

  /** How many bytes of the file belong to what `next` has returned. */
  get offset(): number {
    return this.#rdbBytes + (this.#part === "rdb" ? this.#rdb.offset : this.#commands.offset);
  }

  /**
   * Says that the file ends here. A server that was killed may leave half a command at the end of its last
   * file; with `truncatedAllowed` that is ignored, as servers do.
   */
  end({ truncatedAllowed = false }: { readonly truncatedAllowed?: boolean } = {}): void {
    if (this.#part === "rdb" && !this.#rdb.finished) throw new RdbTruncatedError(this.#rdb.offset);
    if (this.#commands.partial && !truncatedAllowed) {
      throw new AofFormatError(this.#file, this.offset, "the file ends in the middle of a command");
    }
  }
}
