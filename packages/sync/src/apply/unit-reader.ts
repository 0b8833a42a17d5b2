/**
 * Splits the bytes of a replication stream into units: one command, or all commands from MULTI to EXEC. A
 * unit is the smallest thing that is applied; a checkpoint is never inside one.
 *
 * A stream that is resumed begins at the end of a unit, so MULTI is always seen before its commands.
 */
import { CommandReader, type WireCommand } from "../resp/command-reader.ts";

/** Commands that belong together. */
export interface Unit {
  readonly commands: readonly WireCommand[];
  /** True for MULTI ... EXEC, which are not among the commands. */
  readonly transaction: boolean;
  /** The length of the unit in bytes of the stream. */
  readonly bytes: number;
}

/** Reads whole units from chunks of any size. */
export class UnitReader {
  readonly #reader = new CommandReader();
  #open: WireCommand[] | undefined;
  #openBytes = 0;

  push(chunk: Buffer): void {
    this.#reader.push(chunk);
  }

  /** Bytes of a transaction that has not ended yet. */
  get held(): number {
    return this.#openBytes;
  }

  /** The next unit, or undefined if it is not complete yet. */
  next(): Unit | undefined {
    for (;;) {
      const command = this.#reader.next();
      if (command === undefined) return undefined;
      const name = command.argv[0] as Buffer;
      if (this.#open === undefined) {
        if (!isWord(name, "MULTI")) {
          return { commands: [command], transaction: false, bytes: command.raw.length };
        }
        this.#open = [];
        this.#openBytes = command.raw.length;
        continue;
      }
      this.#openBytes += command.raw.length;
      const ends = isWord(name, "EXEC");
      if (!ends && !isWord(name, "DISCARD")) {
        this.#open.push(command);
        continue;
      }
      const unit = { commands: ends ? this.#open : [], transaction: true, bytes: this.#openBytes };
      this.#open = undefined;
      this.#openBytes = 0;
      return unit;
    }
  }
}

/** Whether the bytes are `word`, which is in upper case, in either case. */
export function isWord(bytes: Buffer, word: string): boolean {
  if (bytes.length !== word.length) return false;
  for (let i = 0; i < word.length; i++) {
    if (((bytes[i] as number) & 0xdf) !== word.charCodeAt(i)) return false;
  }
  return true;
}
