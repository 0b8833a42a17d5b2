/**
 * Applies a stream to a cluster. A batch is divided by slot. Each slot has a mark with the last offset that
 * was applied to it, which the same script moves with the commands. So after a crash every slot has its own
 * record, and the checkpoint of the task may lag behind all of them:
 *
 *   checkpoint  ----F----------------------->            the stream is read again from here
 *   slot 7      -----------o                             commands up to o are skipped for slot 7
 *   slot 9      ------o                                  and up to here for slot 9
 *
 * A command whose keys are in different slots is divided where that keeps its meaning. Otherwise its keys
 * are read again from the source, at an offset X, and written with those values. Commands of the stream that
 * touch them are skipped up to X. The mark of the slot records X as a hold, so a resumed run skips them too.
 */
import type { StreamNote, StreamTarget } from "../apply/applier.ts";
import type { Position } from "../checkpoint.ts";
import { keysOf } from "../command/keys.ts";
import { keySlot, splitBySlot } from "../command/slot.ts";
import { CommandRefusedError } from "../errors.ts";
import type { Transaction } from "../sink/transaction.ts";
import { shortened } from "./long-command.ts";
import {
  isAfter,
  type SlotCommand,
  type SlotGroup,
  type SlotMark,
  type SlotWriter,
  type StreamPlace,
} from "./slot-writer.ts";

/** Keys of the source as they were at one offset. */
export interface Reread {
  readonly offset: number;
  /** The commands that write each key, DEL if it does not exist. */
  readonly writes: ReadonlyMap<Buffer, readonly (readonly Buffer[])[]>;
}

/** How the stream is applied. */
export interface ClusterStreamOptions {
  readonly writer: SlotWriter;
  readonly epoch: number;
  readonly marks: Map<number, SlotMark>;
  /** The places that slots have confirmed to this run; owned by the sink, which outlives the stream. */
  readonly confirmed: Map<number, StreamPlace>;
  /** Where the stream begins. */
  readonly from: number;
  readonly crossSlot: "split" | "stop";
  /** Reads keys again from the source. */
  reread(keys: readonly Buffer[]): Promise<Reread>;
  /** Runs a command that has no key on all masters, or on one. */
  everywhere(argv: readonly Buffer[], all: boolean): Promise<string | undefined>;
  /** Rejects with TargetRewoundError if a restarted node lacks confirmed writes; does nothing if none restarted. */
  audit(): Promise<void>;
  /** Empties all masters. */
  flush(argv: readonly Buffer[]): Promise<void>;
  /** Writes the checkpoint of the task. */
  checkpoint(position: Position): Promise<void>;
  onFailure(note: StreamNote, reply: string): void;
}

const CHECKPOINT_MS = 200;
const ONE_NODE = new Set(["PUBLISH", "SPUBLISH"]);

/** Applies a stream to a cluster, slot by slot. */
export class ClusterStream implements StreamTarget {
  readonly #options: ClusterStreamOptions;
  /** The places that slots had when this run began, until they advance. */
  readonly #had = new Map<number, StreamPlace>();
  readonly #holds = new Map<string, { readonly key: Buffer; readonly until: number }>();
  #written = Number.NEGATIVE_INFINITY;
  #pending: Position | undefined;
  /** Where the next batch begins. */
  #at: number;

  constructor(options: ClusterStreamOptions) {
    this.#options = options;
    this.#at = options.from;
    for (const [slot, mark] of options.marks) {
      if (mark.offset >= 0) this.#had.set(slot, mark);
      for (const [name, until] of mark.holds) {
        this.#holds.set(name, { key: Buffer.from(name, "latin1"), until });
      }
    }
  }

  async apply(batch: Transaction<StreamNote>, position: Position): Promise<void> {
    let groups = new Groups();
    let place: StreamPlace = { offset: position.offset, step: 0, from: this.#at };
    let unit = 0;
    let step = 0;
    for (let index = 0; index < batch.notes.length; index++) {
      while (index >= (batch.units[unit]?.end ?? Number.POSITIVE_INFINITY)) {
        unit += 1;
        step = 0;
      }
      const note = batch.notes[index];
      if (note === undefined) continue;
      if (note.own !== true && note.inserted !== true) step += 1;
      const from = batch.units[unit - 1]?.offset ?? this.#at;
      const next = { offset: batch.units[unit]?.offset ?? position.offset, step, from };
      if (!this.#divide(note, next, groups)) {
        // Earlier commands must be applied first.
        await this.#flush(groups, place);
        groups = new Groups();
        await this.#alone(note, groups);
      }
      place = next;
    }
    await this.#flush(groups, place);
    await this.#options.audit();
    this.#at = position.offset;
    this.#pending = position;
    if (performance.now() - this.#written >= CHECKPOINT_MS || batch.empty) await this.finish();
  }

  async finish(): Promise<void> {
    const position = this.#pending;
    if (position === undefined) return;
    this.#pending = undefined;
    await this.#options.checkpoint(position);
    this.#written = performance.now();
  }

  /** Puts a command into the groups of its slots; false if it must be handled alone. */
  #divide(note: StreamNote, place: StreamPlace, groups: Groups): boolean {
    const pieces = splitBySlot(note.argv);
    if (pieces === undefined) return false;
    const found: { slot: number; command: SlotCommand }[] = [];
    for (const { slot, argv } of pieces) {
      if (slot === undefined) return false;
      const keys = (keysOf(argv) ?? []).map((at) => argv[at] as Buffer);
      const held = keys.filter((key) => this.#holdOf(key) >= place.offset);
      if (held.length > 0 && held.length === keys.length) continue; // the value that was read includes it
      if (held.length > 0) return false;
      const had = this.#had.get(slot);
      if (had !== undefined && !isAfter(place, had)) continue;
      found.push({ slot, command: { argv, keys } });
    }
    for (const { slot, command } of found) {
      const short = shortened(command.argv);
      if (short === undefined) {
        this.#options.onFailure(note, `it has ${command.argv.length} words, which is too long`);
        continue;
      }
      for (const argv of short) groups.add(slot, { argv, keys: command.keys }, note);
    }
    return true;
  }

  /** A command without keys, or one whose keys are in different slots and depend on each other. */
  async #alone(note: StreamNote, groups: Groups): Promise<void> {
    const { argv } = note;
    const name = String(argv[0]).toUpperCase();
    const positions = keysOf(argv);
    if (positions !== undefined && positions.length > 0) {
      if (this.#options.crossSlot === "stop") {
        throw new CommandRefusedError(
          name,
          'its keys are in different slots of the target, and the option crossSlot is "stop"',
        );
      }
      await this.#copy(
        positions.map((at) => argv[at] as Buffer),
        { note, groups },
      );
      return;
    }
    if (name === "FLUSHALL" || name === "FLUSHDB") {
      await this.#options.flush(argv);
      // The marks were deleted with the data, so everything that follows is applied, even if an earlier run applied it.
      this.#had.clear();
      this.#holds.clear();
      this.#options.confirmed.clear();
      return;
    }
    const error = await this.#options.everywhere(argv, !ONE_NODE.has(name));
    if (error !== undefined) this.#options.onFailure(note, error);
  }

  /** Writes keys as the source has them at the moment. */
  async #copy(
    keys: readonly Buffer[],
    { note, groups }: { note: StreamNote; groups: Groups },
  ): Promise<void> {
    const { offset, writes } = await this.#options.reread(keys);
    for (const [key, commands] of writes) {
      const slot = keySlot(key);
      for (const argv of commands) groups.add(slot, { argv, keys: [key] }, note);
      groups.hold(slot, key, offset);
      this.#holds.set(key.toString("latin1"), { key, until: offset });
    }
  }

  #holdOf(key: Buffer): number {
    return this.#holds.size === 0 ? -1 : (this.#holds.get(key.toString("latin1"))?.until ?? -1);
  }

  /** Applies the groups; afterwards their slots are at this place. */
  async #flush(groups: Groups, place: StreamPlace): Promise<void> {
    for (const [name, { key, until }] of this.#holds) {
      const slot = keySlot(key);
      if (until >= place.offset || !groups.has(slot)) continue;
      groups.hold(slot, key, undefined);
      this.#holds.delete(name);
    }
    const { confirmed } = this.#options;
    const list = groups
      .list(place)
      .map((group) => ({ ...group, confirmed: confirmed.get(group.slot) }));
    if (list.length === 0) return;
    const failures = await this.#options.writer.apply(this.#options.epoch, list);
    for (const { slot } of list) {
      this.#had.delete(slot);
      confirmed.set(slot, place);
    }
    for (const { command, reply } of failures) {
      const note = groups.noteOf(command);
      if (note !== undefined) this.#options.onFailure(note, reply);
    }
  }
}

/** Commands by slot. */
class Groups {
  readonly #slots = new Map<number, Group>();
  readonly #notes = new Map<SlotCommand, StreamNote>();

  has(slot: number): boolean {
    return this.#slots.has(slot);
  }

  add(slot: number, command: SlotCommand, note: StreamNote): void {
    this.#slot(slot).commands.push(command);
    this.#notes.set(command, note);
  }

  hold(slot: number, key: Buffer, until: number | undefined): void {
    this.#slot(slot).holds.push([key, until]);
  }

  list(place: StreamPlace): SlotGroup[] {
    return Array.from(this.#slots, ([slot, group]) => ({ slot, place, ...group }));
  }

  noteOf(command: SlotCommand): StreamNote | undefined {
    return this.#notes.get(command);
  }

  #slot(slot: number): Group {
    const known = this.#slots.get(slot) ?? { commands: [], holds: [] };
    this.#slots.set(slot, known);
    return known;
  }
}

interface Group {
  readonly commands: SlotCommand[];
  readonly holds: [Buffer, number | undefined][];
}
