/**
 * The body of one MULTI/EXEC: commands for any database, encoded once and kept until the outcome is known,
 * because after a lost connection the same bytes may have to be sent again.
 *
 * Every command has a note, which explains its error, or is used to write the same key in another
 * way.
 */
import { type Argument, RespWriter } from "../resp/writer.ts";

/** A string value inside a larger buffer. */
export interface StringSlice {
  readonly key: Buffer;
  readonly bytes: Buffer;
  readonly start: number;
  readonly end: number;
}

/** A key and its string, both inside larger buffers. RdbKey is one. */
export interface StringPair {
  readonly keyBytes: Buffer;
  readonly keyStart: number;
  readonly keyEnd: number;
  readonly bytes: Buffer;
  readonly textStart: number;
  readonly rawEnd: number;
}

/** A collection of commands: a transaction, or the batch of a slot. */
export interface CommandBatch<N> {
  select(db: number): void;
  command(argv: readonly Argument[], note: N): void;
  set(value: StringSlice, expiresAtMs: number, note: N): void;
  /** SET without an expiry, possibly combined with others in one MSET. Only if all keys are on one server. */
  pair?(pair: StringPair, note: N): void;
  /** For hot paths: the writer with which the caller encodes a command itself. */
  writer?(note: N): RespWriter;
  readonly commands: number;
  readonly bytes: number;
  readonly empty: boolean;
}

/** Strings that are written by one MSET. */
export interface PairGroup<N> {
  readonly db: number;
  readonly pairs: readonly StringPair[];
  readonly notes: readonly N[];
}

/** MSET saves the server most of the work per command; longer ones save no more. */
const MOST_PAIRS = 50;
const MOST_PAIR_BYTES = 16 * 1024;
const PAIR_OVERHEAD = 16;

/** Commands that are applied together or not at all. `N` is the type of a note. */
export class Transaction<N> implements CommandBatch<N> {
  /** The number of commands at the end of each unit of the stream, and its offset. */
  readonly units: { readonly end: number; readonly offset: number }[] = [];
  /** Notes of the commands, in order; undefined for a SELECT that was added here. */
  readonly notes: (N | undefined)[] = [];
  /** The commands that are an MSET, by their index. Their note is the note of the first string. */
  readonly groups: Map<number, PairGroup<N>> = new Map();
  #pairs: StringPair[] = [];
  #pairNotes: N[] = [];
  #pairBytes = 0;
  #grouped = 0;
  readonly #writer = new RespWriter();
  #encoded: Buffer[] | undefined;
  #bytes = 0;
  #db = 0;

  /** How many commands there are. */
  get commands(): number {
    this.#group();
    return this.notes.length;
  }

  /** How many commands there would be without MSET. */
  get writes(): number {
    return this.notes.length + this.#grouped + this.#pairs.length;
  }

  /** The size so far. */
  get bytes(): number {
    return this.#encoded === undefined ? this.#writer.size + this.#pairBytes : this.#bytes;
  }

  get empty(): boolean {
    return this.notes.length === 0 && this.#pairs.length === 0;
  }

  /** Selects the database of the commands that follow. A transaction begins in database 0. */
  select(db: number): void {
    if (db === this.#db) return;
    this.#group();
    this.#writer.command(["SELECT", db]);
    this.notes.push(undefined);
    this.#db = db;
  }

  /** Adds one command. */
  command(argv: readonly Argument[], note: N): void {
    this.#writer.command(argv);
    this.notes.push(note);
  }

  /** Adds one command that is already encoded. */
  raw(bytes: Buffer, note: N): void {
    this.#writer.raw(bytes);
    this.notes.push(note);
  }

  /** Marks the end of a unit of the stream; also of an earlier unit, if the task added commands after it. */
  endUnit(offset: number): void {
    if (this.units.at(-1)?.offset === offset) this.units.pop();
    this.units.push({ end: this.notes.length, offset });
  }

  /** Adds SET with bytes of a snapshot, without creating a view of them. */
  set(value: StringSlice, expiresAtMs: number, note: N): void {
    const writer = this.writer(note);
    writer.header(expiresAtMs < 0 ? 3 : 5);
    writer.argument("SET");
    writer.argument(value.key);
    writer.range(value.bytes, value.start, value.end);
    if (expiresAtMs < 0) return;
    writer.argument("PXAT");
    writer.argument(expiresAtMs);
  }

  /** Adds a string without an expiry. Its order among the other commands is not kept. */
  pair(pair: StringPair, note: N): void {
    this.#pairs.push(pair);
    this.#pairNotes.push(note);
    const { keyStart, keyEnd, textStart, rawEnd } = pair;
    this.#pairBytes += keyEnd - keyStart + rawEnd - textStart + PAIR_OVERHEAD;
    if (this.#pairs.length >= MOST_PAIRS || this.#pairBytes >= MOST_PAIR_BYTES) this.#group();
  }

  /** Writes the strings that were collected. */
  #group(): void {
    const [pairs, notes] = [this.#pairs, this.#pairNotes];
    if (pairs.length === 0) return;
    this.#pairs = [];
    this.#pairNotes = [];
    this.#pairBytes = 0;
    if (pairs.length > 1) this.groups.set(this.notes.length, { db: this.#db, pairs, notes });
    this.#grouped += pairs.length - 1;
    const writer = this.writer(notes[0] as N);
    writer.header(1 + 2 * pairs.length);
    writer.argument(pairs.length > 1 ? "MSET" : "SET");
    for (const { keyBytes, keyStart, keyEnd, bytes, textStart, rawEnd } of pairs) {
      writer.range(keyBytes, keyStart, keyEnd);
      writer.range(bytes, textStart, rawEnd);
    }
  }

  /** For hot paths: the writer, after counting a command that the caller encodes with it. */
  writer(note: N): RespWriter {
    this.notes.push(note);
    return this.#writer;
  }

  /** Ends the body in database 0 and returns its bytes. Repeated calls return the same bytes. */
  encoded(): readonly Buffer[] {
    if (this.#encoded === undefined) {
      this.#group();
      this.select(0);
      this.#bytes = this.#writer.size;
      this.#encoded = this.#writer.take();
    }
    return this.#encoded;
  }
}
