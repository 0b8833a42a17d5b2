/** Writes the keys of a snapshot as commands into a file, batch by batch and in order. */
import type { Argument } from "../resp/writer.ts";
import type { LoadWriterOptions, SnapshotWriter } from "../sink/load-writer.ts";
import { type CommandBatch, Transaction } from "../sink/transaction.ts";

/** The destination of the commands. */
export interface AofWriterOptions<N> extends Pick<LoadWriterOptions<N>, "batchBytes" | "admit"> {
  readonly complete: LoadWriterOptions<N>["complete"] | undefined;
  append(pieces: readonly Buffer[]): Promise<void>;
}

/** Writes the keys of a snapshot as commands. */
export class AofWriter<N> implements SnapshotWriter<N> {
  readonly #options: AofWriterOptions<N>;
  #current = new Transaction<N>();

  constructor(options: AofWriterOptions<N>) {
    this.#options = options;
  }

  batchFor(_note: { readonly key: Buffer }): Transaction<N> {
    return this.#current;
  }

  get current(): Transaction<N> {
    return this.#current;
  }

  separate(_key: Buffer): Transaction<N> {
    return new Transaction();
  }

  written(): Promise<void> | undefined {
    return this.#current.bytes < this.#options.batchBytes ? undefined : this.drain();
  }

  everywhere(argv: readonly Argument[], note: N): Promise<void> | undefined {
    this.#current.command(argv, note);
    return this.written();
  }

  async commit(batch: CommandBatch<N>): Promise<void> {
    const { admit, append } = this.#options;
    const transaction = batch as Transaction<N>;
    await admit?.(transaction.commands, transaction.bytes);
    await append(transaction.encoded());
  }

  commitLast(batch: CommandBatch<N>): Promise<void> {
    this.#options.complete?.(batch as Transaction<N>);
    return this.commit(batch);
  }

  async drain(): Promise<void> {
    const batch = this.#current;
    if (batch.empty) return;
    this.#current = new Transaction();
    this.#options.complete?.(batch);
    await this.commit(batch);
  }
}
