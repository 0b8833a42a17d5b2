/**
 * A log file with a maximum size: when it is full, it is renamed to FILE.1 and a new file is started. Lines
 * are written at once and not in the background, so that a crash does not take along the lines that
 * explain it. A disk that is full loses lines, and nothing else.
 */
import { closeSync, fstatSync, openSync, renameSync, writeSync } from "node:fs";

/** The size after which the file is renamed. */
export const LOG_LIMIT_BYTES: number = 10 * 1024 * 1024;

/** A file to append lines to. */
export class RotatingFile {
  readonly #path: string;
  readonly #limit: number;
  #file: number;
  #bytes: number;

  constructor(path: string, limit: number = LOG_LIMIT_BYTES) {
    this.#path = path;
    this.#limit = limit;
    this.#file = openSync(path, "a", 0o600);
    this.#bytes = fstatSync(this.#file).size;
  }

  /** Appends the text; never throws. */
  write(text: string): void {
    try {
      const bytes = Buffer.byteLength(text);
      if (this.#bytes > 0 && this.#bytes + bytes > this.#limit) this.#rotate();
      writeSync(this.#file, text);
      this.#bytes += bytes;
    } catch {
      // The disk is full or the folder is gone. There is no other place to report it.
    }
  }

  #rotate(): void {
    try {
      renameSync(this.#path, `${this.#path}.1`);
    } catch {
      // The file was removed or moved: a new one is started.
    }
    const next = openSync(this.#path, "a", 0o600);
    closeSync(this.#file);
    this.#file = next;
    this.#bytes = 0;
  }
}
