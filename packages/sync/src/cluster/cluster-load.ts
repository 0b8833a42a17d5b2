/**
 * Writes the keys of a snapshot to a cluster. Batches are filled per slot, and all of them are sent
 * together, node by node. Expiries that are held back are written before their keys, because
 * they are in another slot.
 */
import { keySlot } from "../command/slot.ts";
import type { Argument } from "../resp/writer.ts";
import type { LoadWriterOptions, SnapshotWriter } from "../sink/load-writer.ts";
import type { CommandBatch } from "../sink/transaction.ts";
import { SlotBatch } from "./slot-batch.ts";
import type { SlotGroup, SlotWriter } from "./slot-writer.ts";

/** How keys are written. */
export interface ClusterLoadOptions<N>
  extends Omit<LoadWriterOptions<N>, "lanes" | "where" | "noteOf"> {
  readonly writer: SlotWriter;
  /** The slot of the task's own keys. */
  readonly ownSlot: number;
  /** The maximum number of rounds under way at once. */
  readonly rounds: number;
  /** Runs a command on all masters; the error reply, if there is one. */
  everywhere(argv: readonly Buffer[]): Promise<string | undefined>;
  /** Rejects with TargetRewoundError if a node may have lost writes that it confirmed. */
  audit(): Promise<void>;
}

/** Writes the keys of a snapshot to a cluster. */
export class ClusterLoad<N> implements SnapshotWriter<N> {
  readonly #options: ClusterLoadOptions<N>;
  #open = new Map<number, SlotBatch<N>>();
  #bytes = 0;
  #commands = 0;
  #last: SlotBatch<N> | undefined;
  #lastBytes = 0;
  #lastCommands = 0;
  readonly #underWay = new Set<Promise<void>>();
  /** The sequences of the rounds that are not under way. */
  readonly #sequences: string[];
  /** Separate batches are applied one after another. */
  #separate: Promise<unknown> = Promise.resolve();
  #writes = 0;
  #failure: unknown;

  constructor(options: ClusterLoadOptions<N>) {
    this.#options = options;
    this.#sequences = Array.from({ length: options.rounds }, (_, n) => `round-${n}`);
  }

  batchFor({ key }: { readonly key: Buffer }): SlotBatch<N> {
    const slot = keySlot(key);
    const batch = this.#open.get(slot) ?? new SlotBatch<N>(slot);
    this.#open.set(slot, batch);
    this.#last = batch;
    this.#lastBytes = batch.bytes;
    this.#lastCommands = batch.commands;
    return batch;
  }

  separate(key: Buffer): SlotBatch<N> {
    return new SlotBatch<N>(keySlot(key));
  }

  async everywhere(argv: readonly Argument[], note: N): Promise<void> {
    const words = argv.map((word) => (Buffer.isBuffer(word) ? word : Buffer.from(String(word))));
    const reply = await this.#options.everywhere(words);
    if (reply !== undefined) await this.#options.onFailure(note, reply);
  }

  written(): Promise<void> | undefined {
    this.#bytes += (this.#last?.bytes ?? 0) - this.#lastBytes;
    this.#commands += (this.#last?.commands ?? 0) - this.#lastCommands;
    const { batchBytes, batchCommands } = this.#options;
    if (this.#bytes < batchBytes && this.#commands < batchCommands) return undefined;
    return this.#flush();
  }

  async commit(batch: CommandBatch<N>): Promise<void> {
    const written = this.#separate.then(() => this.#write([batch as SlotBatch<N>], "separate"));
    this.#separate = written.catch(() => {});
    await this.#report(await written);
  }

  async commitLast(batch: CommandBatch<N>): Promise<void> {
    await this.#complete();
    await this.commit(batch);
  }

  async drain(): Promise<void> {
    do {
      await this.#flush();
      await Promise.all(this.#underWay);
      if (this.#failure !== undefined) throw this.#failure;
    } while (this.#open.size > 0);
    await this.#options.audit();
  }

  async #flush(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    const batches = [...this.#open.values()].filter((batch) => !batch.empty);
    await this.#options.admit?.(this.#commands, this.#bytes);
    this.#open = new Map();
    this.#bytes = 0;
    this.#commands = 0;
    this.#last = undefined;
    await this.#complete();
    if (batches.length === 0) return;
    const round = this.#round(batches)
      .catch((error) => {
        this.#failure ??= error;
      })
      .finally(() => this.#underWay.delete(round));
    this.#underWay.add(round);
    while (this.#underWay.size >= this.#options.rounds) await Promise.race(this.#underWay);
  }

  /** Writes the expiries that are held back. */
  async #complete(): Promise<void> {
    const first = new SlotBatch<N>(this.#options.ownSlot);
    this.#options.complete?.(first as never);
    if (!first.empty) await this.#report(await this.#write([first], "held"));
  }

  /** Applies batches in a sequence that no other round under way uses. */
  async #round(batches: readonly SlotBatch<N>[]): Promise<void> {
    const sequence = this.#sequences.pop() as string;
    try {
      await this.#report(await this.#write(batches, sequence));
    } finally {
      this.#sequences.push(sequence);
    }
  }

  /** Applies batches, each once. Resolves with the commands that failed. */
  async #write(batches: readonly SlotBatch<N>[], sequence: string): Promise<Failed<N>[]> {
    const { writer, epoch } = this.#options;
    const once = { sequence, id: `${epoch}-${++this.#writes}` };
    const byGroup = new Map<SlotGroup, SlotBatch<N>>();
    for (const batch of batches) {
      const { slot, list: commands } = batch;
      byGroup.set({ slot, place: undefined, once, commands, holds: [] }, batch);
    }
    const failures = await writer.apply(epoch, [...byGroup.keys()]);
    return failures.map(({ group, command, reply }) => {
      const batch = byGroup.get(group);
      return { note: batch?.notes[batch.list.indexOf(command)], reply };
    });
  }

  async #report(failures: readonly Failed<N>[]): Promise<void> {
    for (const { note, reply } of failures) {
      if (note !== undefined) await this.#options.onFailure(note, reply);
    }
  }
}

/** A command that failed. */
interface Failed<N> {
  readonly note: N | undefined;
  readonly reply: string;
}
