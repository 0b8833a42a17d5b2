/**
 * The records of refused writes on their way to the target. Those that arrive while others are being written follow
 * together, so that many failures need few connections. Only as many wait as the target keeps.
 */
import type { DiscardedRecord } from "./error-budget.ts";
import { RECORDS } from "./sink/records.ts";

const MOST_AT_ONCE = 1_000;

/** Writes records in the background, in order. */
export class DiscardedLog {
  readonly #write: (records: readonly DiscardedRecord[]) => Promise<void> | undefined;
  #waiting: DiscardedRecord[] = [];
  #writing: Promise<void> | undefined;

  /** `write` must not reject. */
  constructor(write: (records: readonly DiscardedRecord[]) => Promise<void> | undefined) {
    this.#write = write;
  }

  add(record: DiscardedRecord): void {
    this.#waiting.push(record);
    if (this.#waiting.length >= 2 * RECORDS) this.#waiting.splice(0, RECORDS);
    this.#writing ??= this.#drain();
  }

  /** Resolves when nothing waits any more. */
  async written(): Promise<void> {
    await this.#writing;
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) await this.#write(this.#waiting.splice(0, MOST_AT_ONCE));
    this.#writing = undefined;
  }
}
