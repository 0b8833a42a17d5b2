/**
 * Applies the stream: reads units, translates their commands, and commits them in batches together with the
 * checkpoint.
 *
 *   feed --bytes--> units --translate--> [ transaction being filled ] --commit--> target
 *                                                                 one at a time
 *
 * A batch contains everything that arrived while the previous batch was being committed. So a single command
 * is sent at once, and under load batches grow, up to `batchBytes`.
 *
 * Input that needs no write (PING, GETACK, filtered commands) moves the position in memory only;
 * the checkpoint is updated once a second.
 */
import type { Position } from "../checkpoint.ts";
import { WireCommand } from "../resp/command-reader.ts";
import { Transaction } from "../sink/transaction.ts";
import type { Feed } from "../source/feed.ts";
import { encodeCommand } from "../wire/encode.ts";
import { isWord, type Unit, UnitReader } from "./unit-reader.ts";
import { LATE_MS, type VanishedKeys } from "./vanished-keys.ts";

/** A write of the stream, for error messages: the command as it is sent, and the database at the target. */
export interface StreamNote {
  readonly argv: readonly Buffer[];
  readonly db: number;
  /** True for a write that the task itself adds to the stream. */
  readonly own?: boolean;
  /** True for a value that was read from the source and inserted between the commands of the stream. */
  readonly inserted?: boolean;
}

/** Turns commands of the source into commands of the target. */
export interface Translate {
  /** Adds the translated command. */
  command(command: WireCommand, db: number, into: Transaction<StreamNote>): void;
  /** Called before the commands of a unit. Returns false to leave them out. */
  unit?(unit: Unit, into: Transaction<StreamNote>): boolean;
}

/** The part of a slot fence that the applier of one shard uses while slots move between shards. */
export interface StreamMoves {
  /** Whether a command of the unit that ends at the offset is applied. */
  admits(argv: readonly Buffer[], offset: number): boolean;
  /** Commands, in the form of the source, that must be applied before the unit between two offsets. */
  before(begins: number, ends: number): Iterable<readonly Buffer[]>;
  /** Adds the writes that must be committed with a unit. */
  after(into: Transaction<StreamNote>): void;
  /** Work that must finish before the next unit is taken, if any. */
  pending(): Promise<void> | undefined;
}

/** The destination of batches. */
export interface StreamTarget {
  /** Applies the batch and moves the checkpoint, together and exactly once. */
  apply(batch: Transaction<StreamNote>, position: Position): Promise<void>;
  /** Completes writes that were deferred. */
  finish?(): Promise<void>;
}

/** How the stream is applied. */
export interface ApplierOptions {
  readonly feed: Feed;
  readonly from: Position;
  readonly translate: Translate;
  readonly target: StreamTarget;
  readonly batchBytes: number;
  readonly batchCommands: number;
  readonly signal: AbortSignal;
  /** Called after each batch, and when the position moved without one. */
  onApplied(position: Position, commands: number, bytes: number): void;
  /** Only for a cluster as the source. */
  readonly moves?: StreamMoves;
  /** Only for a target that expires keys by its own clock. */
  readonly vanished?: VanishedKeys | undefined;
  /** The offset of the source when the stream began. Commands before it may be old. */
  readonly lateUntil?: number;
  /** Waits while the task is paused or throttled. */
  admit?(commands: number, bytes: number): Promise<void> | undefined;
}

const IDLE_CHECKPOINT_MS = 1_000;

/** Applies the stream of one shard to the target. */
export class Applier {
  readonly #options: ApplierOptions;
  readonly #units = new UnitReader();
  #position: Position;
  #checkpointed: Position;
  #checkpointedAt = performance.now();
  #batch = new Transaction<StreamNote>();
  #ackWanted = false;
  /** When the batch was started, and at which offset. */
  #begun = { offset: 0, at: performance.now() };
  /** A moment, and the offset that had been received by then. */
  #seen = { offset: 0, at: performance.now() };
  /** The bytes being taken now were received after this moment. */
  #passedAt = performance.now();
  #lateUntil: number;

  constructor(options: ApplierOptions) {
    this.#options = options;
    this.#lateUntil = options.lateUntil ?? 0;
    const { replid, offset, db, written = offset } = options.from;
    this.#position = { replid, offset, db, written };
    this.#checkpointed = this.#position;
  }

  /** The position up to which everything is committed, or needs no commit. */
  get position(): Position {
    return this.#batch.empty ? this.#position : this.#checkpointed;
  }

  /** Applies until `done` returns true, the stream ends, or the signal aborts. All batches are committed. */
  async run(done: (position: Position) => boolean = () => false): Promise<void> {
    const { feed, signal, vanished } = this.#options;
    while (!signal.aborted) {
      await this.#fill();
      // The next batch is filled while this one is under way.
      if (!this.#batch.empty || this.#stale) await both(this.#commit(), this.#fill());
      else this.#report(this.#position, 0, 0);
      if (done(this.position)) break;
      if (!this.#batch.empty || feed.waiting > 0 || vanished?.due) continue;
      const chunk = await this.#wait();
      if (chunk === undefined) break;
      this.#units.push(chunk);
    }
    await this.finish();
  }

  /** Commits everything that was taken and is not committed yet. */
  async finish(): Promise<void> {
    if (this.#position.offset !== this.#checkpointed.offset) await this.#commit();
  }

  /** The next bytes; an empty buffer when it is time to checkpoint or to stop. */
  async #wait(): Promise<Buffer | undefined> {
    const { feed, signal } = this.#options;
    const idle = new AbortController();
    const moved = this.#position.offset !== this.#checkpointed.offset;
    const timer = moved ? setTimeout(() => idle.abort(), IDLE_CHECKPOINT_MS) : undefined;
    const stop = () => idle.abort();
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop(); // the event came before the listener
    try {
      const chunk = await feed.read(idle.signal);
      // No bytes were waiting, so these are not late.
      this.#passedAt = performance.now();
      this.#seen = { offset: this.#position.offset, at: this.#passedAt };
      return chunk;
    } catch (error) {
      if (idle.signal.aborted) return EMPTY;
      throw error;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
    }
  }

  /** Whether the position moved at least a second ago and has not been written since. */
  get #stale(): boolean {
    const moved = this.#position.offset !== this.#checkpointed.offset;
    return moved && performance.now() - this.#checkpointedAt >= IDLE_CHECKPOINT_MS;
  }

  /** Takes what has arrived, up to one batch. */
  async #fill(): Promise<void> {
    const { feed, batchBytes, batchCommands, moves, vanished } = this.#options;
    while (this.#batch.bytes < batchBytes && this.#batch.commands < batchCommands) {
      const pending = moves?.pending() ?? vanished?.pending();
      if (pending !== undefined) await pending;
      const unit = this.#units.next();
      if (unit !== undefined) {
        this.#take(unit);
        continue;
      }
      const chunk = feed.readNow() ?? (feed.waiting > 0 ? await feed.read() : undefined);
      if (chunk === undefined) return;
      this.#units.push(chunk);
    }
  }

  #take(unit: Unit): void {
    const { translate, feed, moves, vanished } = this.#options;
    let { db, written } = this.#position;
    if (this.#batch.empty) this.#begun = { offset: this.#position.offset, at: performance.now() };
    const before = this.#batch.commands;
    const offset = this.#position.offset + unit.bytes;
    for (const argv of moves?.before(this.#position.offset, offset) ?? []) {
      translate.command(new WireCommand(argv, encodeCommand(argv)), db, this.#batch);
    }
    for (const write of vanished?.before(this.#position.offset, offset) ?? []) {
      const { argv } = write;
      translate.command(new WireCommand(argv, encodeCommand(argv)), write.db, this.#batch);
    }
    this.#markInserted(before);
    const wanted = translate.unit?.(unit, this.#batch) ?? true;
    for (const command of unit.commands) {
      const [name, first, second] = command.argv;
      if (isWord(name as Buffer, "SELECT") && first !== undefined) db = Number(first);
      else if (isWord(name as Buffer, "PING")) continue;
      else if (isWord(name as Buffer, "REPLCONF")) {
        if (first !== undefined && isWord(first, "GETACK") && second !== undefined) {
          this.#ackWanted = true;
        }
      } else if (wanted && moves?.admits(command.argv, offset) !== false) {
        translate.command(command, db, this.#batch);
      }
    }
    moves?.after(this.#batch);
    this.#batch.endUnit(offset);
    if (this.#batch.commands > before) written = offset;
    this.#position = {
      replid: feed.replid,
      offset,
      db,
      ...(written === undefined ? {} : { written }),
    };
  }

  /** Marks commands that a run that resumes inside this unit does not get again. */
  #markInserted(from: number): void {
    const { notes } = this.#batch;
    for (let at = from; at < notes.length; at++) {
      const note = notes[at];
      if (note !== undefined) notes[at] = { ...note, inserted: true };
    }
  }

  async #commit(): Promise<void> {
    const batch = this.#batch;
    const position = this.#position;
    const begun = this.#begun;
    this.#batch = new Transaction();
    const { target, admit, vanished } = this.#options;
    const { commands, bytes } = batch;
    await admit?.(commands, bytes);
    const checkedAt = performance.now();
    await vanished?.check(batch.notes, this.#isLate(begun));
    if (vanished?.after(batch)) batch.endUnit(position.offset);
    await target.apply(batch, position);
    await vanished?.doubt(batch.notes, performance.now() - checkedAt);
    vanished?.applied(position.offset);
    this.#checkpointed = position;
    this.#checkpointedAt = performance.now();
    this.#report(position, commands, bytes);
  }

  /** Whether the batch may be so old that the target has expired keys it relies on. */
  #isLate({ offset, at }: { readonly offset: number; readonly at: number }): boolean {
    const { feed } = this.#options;
    const now = performance.now();
    if (offset >= this.#seen.offset) {
      this.#passedAt = this.#seen.at;
      this.#seen = { offset: feed.received, at: now };
    }
    if (now - Math.min(at, this.#passedAt) > LATE_MS) this.#lateUntil = feed.received;
    return offset < Math.max(this.#lateUntil, feed.behindUntil ?? 0);
  }

  #report(position: Position, commands: number, bytes: number): void {
    const { feed, onApplied } = this.#options;
    feed.acknowledge(position.offset, this.#ackWanted);
    this.#ackWanted = false;
    onApplied(position, commands, bytes);
  }
}

const EMPTY = Buffer.alloc(0);

/** Waits for both, even if one fails: a commit that is under way must not outlive its applier. */
async function both(...work: readonly Promise<void>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(work)) {
    if (outcome.status === "rejected") throw outcome.reason;
  }
}
