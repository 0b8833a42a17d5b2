/** Writes that the target refused: each is recorded, and too many of them end the task. */
import { TooManyErrorsError } from "./errors.ts";

/** A write that the target refused. */
export interface DiscardedRecord {
  readonly command: string;
  /** Its first 64 KiB, if it is longer. */
  readonly key: string;
  readonly db: number;
  readonly error: string;
  /** ISO 8601. */
  readonly at: string;
}

/** A longer key is cut, because a string cannot have the maximum size of a key. */
const LONGEST = 64 * 1024;

/** Counts the refused writes of all shards of a task. */
export class ErrorBudget {
  readonly #max: number;
  readonly #record: (record: DiscardedRecord) => void;
  #spent = 0;
  #first: string | undefined;

  constructor(maxErrors: number, record: (record: DiscardedRecord) => void) {
    this.#max = maxErrors;
    this.#record = record;
  }

  get spent(): number {
    return this.#spent;
  }

  /** Records the failure. Throws TooManyErrorsError if the maximum is exceeded. */
  spend(argv: readonly Buffer[], db: number, error: string): void {
    this.#spent += 1;
    const [command = "", key = ""] = argv
      .slice(0, 2)
      .map((word) => word.toString("utf8", 0, LONGEST));
    this.#first ??= `${command} ${key}: ${error}`;
    this.#record({ command, key, db, error, at: new Date().toISOString() });
    if (this.#spent > this.#max) {
      throw new TooManyErrorsError(this.#spent, this.#max, this.#first);
    }
  }
}
