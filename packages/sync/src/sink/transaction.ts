/**
 * The body of one MULTI/EXEC: commands for any database, encoded once and kept until the outcome is known,
 * because after a lost connection the same bytes may have to be sent again.
 *
 * Every command has a note, by which its error can be explained or answered with another way to write the
 * same key.
 */
import { type Argument, RespWriter } from "../resp/writer.ts";

/** A string value inside a larger buffer. */
export interface StringSlice {
  readonly key: Buffer;
  readonly bytes: Buffer;
  readonly start: number;
  readonly end: number;
}

/** What commands can be added to: a transaction, or the batch of a slot. */
export interface CommandBatch<N> {
  select(db: number): void;
  command(argv: readonly Argument[], note: N): void;
  set(value: StringSlice, expiresAtMs: number, note: N): void;
  /** SET without an expiry, perhaps together with others in one MSET; only where all keys are on one server. */
  pair?(value: StringSlice, note: N): void;
  readonly commands: number;
  readonly bytes: number;
  readonly empty: boolean;
}

/** Strings that are written by one MSET. */
export interface PairGroup<N> {
  readonly db: number;
  readonly values: readonly StringSlice[];
  readonly notes: readonly N[];
}

/** MSET saves the server most of the work per command; a longer one saves nothing more. */
const MOST_PAIRS = 50;
const MOST_PAIR_BYTES = 16 * 1024;
const PAIR_OVERHEAD = 16;

/** Commands that are applied together or not at all. `N` is what a note is. */
export class Transaction<N> implements CommandBatch<N> {
  /** After which command a unit of the stream ended, and its offset. */
  readonly units: { readonly end: number; readonly offset: number }[] = [];
  /** Notes of the commands, in order; undefined for a SELECT of ours. */
  readonly notes: (N | undefined)[] = [];
  /** Commands that are an MSET, by their index. Their note is that of the first string. */
  readonly groups: Map<number, PairGroup<N>> = new Map();
  #values: StringSlice[] = [];
  #valueNotes: N[] = [];
  #valueBytes = 0;
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
    return this.notes.length + this.#grouped + this.#values.length;
  }

  /** The size so far. */
  get bytes(): number {
    return this.#encoded === undefined ? this.#writer.size + this.#valueBytes : this.#bytes;
  }

  get empty(): boolean {
    return this.notes.length === 0 && this.#values.length === 0;
  }

  /** The commands that follow are for this database. A transaction begins in database 0. */
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

  /** Adds one command that is encoded already. */
  raw(bytes: Buffer, note: N): void {
    this.#writer.raw(bytes);
    this.notes.push(note);
  }

  /** A unit of the stream ends here. */
  endUnit(offset: number): void {
    this.units.push({ end: this.notes.length, offset });
  }

  /** Adds SET with bytes of a snapshot, without a view of them. */
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

  /** Adds a string without an expiry. Its place among the other commands is not kept. */
  pair(value: StringSlice, note: N): void {
    this.#values.push(value);
    this.#valueNotes.push(note);
    this.#valueBytes += value.key.length + value.end - value.start + PAIR_OVERHEAD;
    if (this.#values.length >= MOST_PAIRS || this.#valueBytes >= MOST_PAIR_BYTES) this.#group();
  }

  /** Writes the strings that were collected. */
  #group(): void {
    const [values, notes] = [this.#values, this.#valueNotes];
    const [first] = values;
    if (first === undefined) return;
    this.#values = [];
    this.#valueNotes = [];
    this.#valueBytes = 0;
    if (values.length === 1) {
      this.set(first, -1, notes[0] as N);
      return;
    }
    this.groups.set(this.notes.length, { db: this.#db, values, notes });
    this.#grouped += values.length - 1;
    const writer = this.writer(notes[0] as N);
    writer.header(1 + 2 * values.length);
    writer.argument("MSET");
    for (const { key, bytes, start, end } of values) {
      writer.range(key, 0, key.length);
      writer.range(bytes, start, end);
    }
  }

  /** For hot paths: the writer, after counting a command that the caller encodes with it. */
  writer(note: N): RespWriter {
    this.notes.push(note);
    return this.#writer;
  }

  /** Ends the body in database 0 and gives its bytes; the same ones each time. */
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
