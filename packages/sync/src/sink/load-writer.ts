/**
 * Writes the keys of a snapshot through several lanes at once. A key occurs once in a snapshot, so the
 * order of keys does not matter; all commands of one key are in one transaction.
 *
 *   current transaction --full--> the next free lane --outcome--> failures, note by note
 *
 * If the replies to a transaction are lost, it is sent again. Its keys are then written twice, with the same result. With
 * `existing` "keep" or "fail", keys that it wrote count as existing then.
 */
import { randomBytes } from "node:crypto";
import { type Deferred, deferred } from "@ropeway/core/internal";
import { TargetRefusedError } from "../errors.ts";
import { PagePool } from "../resp/page.ts";
import type { Argument } from "../resp/writer.ts";
import type { CommandFailure } from "./fenced-connection.ts";
import type { Committed, Lane } from "./lane.ts";
import { type CommandBatch, type SentCommand, Transaction } from "./transaction.ts";

const SET = Buffer.from("SET");
/** How often a transaction is repeated whose replies are lost. */
const MOST_REPEATS = 5;

/** How keys are written. */
export interface LoadWriterOptions<N> {
  /** The target, for messages. */
  readonly where: string;
  readonly lanes: readonly Lane[];
  readonly epoch: number;
  readonly batchBytes: number;
  readonly batchCommands: number;
  /** Adds commands to a transaction before it is passed to a lane. */
  complete?(transaction: Transaction<N>): void;
  /** Called for each command that failed, after the others of its transaction were applied. May write again. */
  onFailure(note: N, reply: string): Promise<void>;
  /** The note of a command that was written without one, if it failed. */
  noteOf(command: SentCommand): N;
  /** Called if the replies to a part of a value were lost, so that nobody knows which of its commands failed. */
  onLost?(): void;
  /** Waits while the task is paused or throttled. */
  admit?(commands: number, bytes: number): Promise<void> | undefined;
}

/** Writes the keys of a snapshot to any kind of target. */
export interface SnapshotWriter<N> {
  /** The batch for the commands of a key. Call `written` after each key. */
  batchFor(note: { readonly key: Buffer }): CommandBatch<N>;
  /** The batch for the commands of a key without a note; undefined if the batch depends on the key. */
  readonly current?: Transaction<N>;
  /** A separate batch, for `commit`. */
  separate(key: Buffer): CommandBatch<N>;
  /** Runs a command that has no key on every server of the target. Repeating the command must be harmless. */
  everywhere(argv: readonly Argument[], note: N): Promise<void> | undefined;
  /** Call it after each key. Returns a promise only if the caller must wait. */
  written(): Promise<void> | undefined;
  /**
   * Applies a batch of `separate` and waits for it. It is used for the parts of one value, which have an order.
   * A repeatable batch may be applied twice, to learn which of its commands fail.
   */
  commit(batch: CommandBatch<N>, repeatable?: boolean): Promise<void>;
  /** Applies the last batch of a value as `commit` does, with what `complete` adds. */
  commitLast(batch: CommandBatch<N>): Promise<void>;
  /** Resolves when everything is applied. */
  drain(): Promise<void>;
}

/** Writes the keys of a snapshot through several lanes. */
export class LoadWriter<N> implements SnapshotWriter<N> {
  readonly #options: LoadWriterOptions<N>;
  readonly #free: Lane[];
  /** The memory of transactions that were applied. */
  readonly #pool = new PagePool();
  #current = new Transaction<N>(this.#pool);
  #waiting: Deferred<void> | undefined;
  #failure: unknown;
  #busy = 0;
  #batches = 0;
  /** Distinguishes this load from others, including one with the same epoch. */
  readonly #token: string;

  constructor(options: LoadWriterOptions<N>) {
    this.#options = options;
    this.#free = [...options.lanes];
    this.#token = `${options.epoch}-${randomBytes(6).toString("hex")}`;
  }

  /** The batch for the commands of a key. Call `written` after each key. */
  batchFor(_note: { readonly key: Buffer }): Transaction<N> {
    return this.#current;
  }

  get current(): Transaction<N> {
    return this.#current;
  }

  /** Call it after each key: passes on a full transaction. Returns a promise only if the caller must wait. */
  written(): Promise<void> | undefined {
    const { batchBytes, batchCommands } = this.#options;
    const current = this.#current;
    if (current.bytes < batchBytes && current.writes < batchCommands) return undefined;
    return this.flush();
  }

  everywhere(argv: readonly Argument[], note: N): Promise<void> | undefined {
    this.#current.command(argv, note);
    return this.written();
  }

  /** Passes on the current transaction. Resolves when a lane has taken it. */
  async flush(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#current.empty) return;
    const transaction = this.#current;
    this.#options.complete?.(transaction);
    this.#current = new Transaction(this.#pool);
    await this.#options.admit?.(transaction.writes, transaction.bytes);
    const lane = await this.#lane();
    void this.#commit(lane, transaction, true);
  }

  separate(_key: Buffer): Transaction<N> {
    return new Transaction();
  }

  /** Applies a separate transaction and waits for it. It is used for the parts of one value, which have an order. */
  async commit(transaction: Transaction<N>, repeatable = false): Promise<void> {
    await this.#options.admit?.(transaction.writes, transaction.bytes);
    await this.#commit(await this.#lane(), transaction, repeatable);
    if (this.#failure !== undefined) throw this.#failure;
  }

  commitLast(transaction: Transaction<N>): Promise<void> {
    this.#options.complete?.(transaction);
    return this.commit(transaction);
  }

  /** Resolves when everything is applied. */
  async drain(): Promise<void> {
    await this.flush();
    while (this.#busy > 0) await this.#wait();
    if (this.#failure !== undefined) throw this.#failure;
    // The handler of a failure may have written more.
    if (!this.#current.empty) await this.drain();
  }

  async #commit(lane: Lane, transaction: Transaction<N>, repeatable: boolean): Promise<void> {
    try {
      let outcome = await this.#send(lane, transaction);
      // Without its replies nobody knows which commands failed, so they are sent again.
      for (let n = 0; n < MOST_REPEATS && outcome.lost && repeatable; n++)
        outcome = await this.#send(lane, transaction);
      if (outcome.lost) this.#options.onLost?.();
      this.#release(lane);
      if (!outcome.applied) throw new TargetRefusedError(this.#options.where, outcome.reply, 0);
      if (outcome.errors.length > 0) await this.#failed(transaction, outcome.errors);
      else transaction.release();
    } catch (error) {
      this.#failure ??= error;
    } finally {
      this.#busy -= 1;
      this.#wake();
    }
  }

  #send(lane: Lane, transaction: Transaction<N>): Promise<Committed> {
    const mark = `${this.#token}-${++this.#batches}`;
    return lane.commit(transaction, mark, ["batch", mark]);
  }

  async #failed(transaction: Transaction<N>, errors: readonly CommandFailure[]): Promise<void> {
    const { onFailure, noteOf } = this.#options;
    const sent = transaction.sent(new Set(errors.map(({ index }) => index)));
    for (const { index, reply } of errors) {
      const note = transaction.notes[index];
      const command = sent.get(index);
      const name = String(command?.argv[0]);
      if (note !== undefined) await onFailure(note, reply);
      else if (command === undefined || name === "SELECT") continue;
      else if (name === "MSET") await this.#oneByOne(command);
      else await onFailure(noteOf(command), reply);
    }
  }

  /** An MSET failed. Writing each string with its own command shows which one is the cause. */
  async #oneByOne({ argv, db }: SentCommand): Promise<void> {
    const transaction = new Transaction<N>();
    transaction.select(db);
    for (let at = 1; at + 1 < argv.length; at += 2) {
      const [key, text] = [argv[at] as Buffer, argv[at + 1] as Buffer];
      const note = this.#options.noteOf({ argv: [SET, key, text], db });
      transaction.set({ key, bytes: text, start: 0, end: text.length }, -1, note);
    }
    await this.commit(transaction, true);
  }

  async #lane(): Promise<Lane> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure;
      const lane = this.#free.pop();
      if (lane !== undefined) {
        this.#busy += 1;
        return lane;
      }
      await this.#wait();
    }
  }

  #release(lane: Lane): void {
    this.#free.push(lane);
    this.#wake();
  }

  #wait(): Promise<void> {
    this.#waiting ??= deferred();
    return this.#waiting.promise;
  }

  #wake(): void {
    this.#waiting?.resolve();
    this.#waiting = undefined;
  }
}
