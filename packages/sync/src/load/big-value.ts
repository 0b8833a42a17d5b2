/**
 * Writes a value that is too large for one transaction. Its parts are written to a temporary key, transaction by
 * transaction, and the last one renames it. Readers see the old value or the new one, never an incomplete one.
 */
import type { CommandBatch } from "../sink/transaction.ts";
import { BigKey, type BigKeyOptions } from "../value/big-key.ts";
import type { ValuePart } from "../value/part.ts";
import type { LoadNote } from "./key-writer.ts";

/** The value to write, and how. */
export interface BigValueOptions {
  readonly key: Buffer;
  readonly db: number;
  readonly batchBytes: number;
  readonly bigKey: BigKeyOptions;
  readonly note: LoadNote;
  /** A new batch. */
  separate(): CommandBatch<LoadNote>;
  /** Applies a transaction and waits for it. */
  commit(transaction: CommandBatch<LoadNote>): Promise<void>;
  /** The same for the last transaction, which makes the value visible. */
  commitLast(transaction: CommandBatch<LoadNote>): Promise<void>;
}

/** One value under construction. */
export class BigValue {
  readonly #options: BigValueOptions;
  readonly #big: BigKey;
  readonly #startedAt = performance.now();
  #current: CommandBatch<LoadNote>;
  #type = "";

  constructor(options: BigValueOptions) {
    this.#options = options;
    this.#big = new BigKey(options.key, options.bigKey);
    this.#current = this.#next();
  }

  get key(): Buffer {
    return this.#options.key;
  }

  get db(): number {
    return this.#options.db;
  }

  /** The Redis type, once a part of the value was seen. */
  get type(): string {
    return this.#type;
  }

  begin(): Promise<void> | undefined {
    return this.#add(this.#big.begin());
  }

  part(part: ValuePart): Promise<void> | undefined {
    this.#type = part.type;
    return this.#add(this.#big.part(part));
  }

  /** Completes the value. Resolves with the time it took in ms. */
  async end(): Promise<number> {
    for (const argv of this.#big.end()) this.#current.command(argv, this.#options.note);
    await this.#options.commitLast(this.#current);
    return Math.round(performance.now() - this.#startedAt);
  }

  /** Removes the parts that were written. */
  async abandon(): Promise<void> {
    this.#current = this.#next();
    for (const argv of this.#big.abandon()) this.#current.command(argv, this.#options.note);
    await this.#options.commit(this.#current);
  }

  #add(commands: ReturnType<BigKey["part"]>): Promise<void> | undefined {
    for (const argv of commands) this.#current.command(argv, this.#options.note);
    if (this.#current.bytes < this.#options.batchBytes) return undefined;
    const full = this.#current;
    this.#current = this.#next();
    return this.#options.commit(full);
  }

  #next(): CommandBatch<LoadNote> {
    const transaction = this.#options.separate();
    transaction.select(this.#options.db);
    return transaction;
  }
}
