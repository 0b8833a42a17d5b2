/**
 * The body of one MULTI/EXEC: commands for any database, encoded once and kept until the outcome is known,
 * because after a lost connection the same bytes may have to be sent again.
 *
 * A command has a note, which explains its error, or is used to write the same key in another way. The commands of most
 * keys of a snapshot have none, because an object per key costs more than the key. If one fails, `sent` reads the
 * command back from the encoded bytes.
 */
import { CommandReader } from "../resp/command-reader.ts";
import { MsetWriter, type StringPair } from "../resp/mset-writer.ts";
import { PagePool } from "../resp/page.ts";
import { type Argument, RespWriter } from "../resp/writer.ts";

/** A string value inside a larger buffer. */
export interface StringSlice {
  readonly key: Buffer;
  readonly bytes: Buffer;
  readonly start: number;
  readonly end: number;
}

/** A collection of commands: a transaction, or the batch of a slot. */
export interface CommandBatch<N> {
  select(db: number): void;
  command(argv: readonly Argument[], note: N): void;
  set(value: StringSlice, expiresAtMs: number, note: N): void;
  readonly commands: number;
  readonly bytes: number;
  readonly empty: boolean;
}

/** A command of a transaction, and the database that it is for. */
export interface SentCommand {
  readonly argv: readonly Buffer[];
  readonly db: number;
}

/** Commands that are applied together or not at all. `N` is the type of a note. */
export class Transaction<N> implements CommandBatch<N> {
  /** The number of commands at the end of each unit of the stream, and its offset. */
  readonly units: { readonly end: number; readonly offset: number }[] = [];
  /** Notes of the commands, in order; undefined for a SELECT that was added here, and for commands without one. */
  readonly notes: (N | undefined)[] = [];
  #strings: MsetWriter | undefined;
  #msets = 0;
  readonly #pool: PagePool;
  readonly #writer: RespWriter;
  #encoded: Buffer[] | undefined;
  #bytes = 0;
  #db = 0;

  constructor(pool: PagePool = new PagePool()) {
    this.#pool = pool;
    this.#writer = new RespWriter(pool);
  }

  /** How many commands there are. */
  get commands(): number {
    this.#addStrings();
    return this.notes.length;
  }

  /** How many commands there would be without MSET. */
  get writes(): number {
    return this.notes.length - this.#msets + (this.#strings?.pairs ?? 0);
  }

  /** The size so far. */
  get bytes(): number {
    if (this.#encoded !== undefined) return this.#bytes;
    return this.#writer.size + (this.#strings?.size ?? 0);
  }

  get empty(): boolean {
    return this.writes === 0;
  }

  /** Selects the database of the commands that follow. A transaction begins in database 0. */
  select(db: number): void {
    if (db === this.#db) return;
    this.#addStrings();
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
    const writer = this.#writer;
    this.notes.push(note);
    writer.header(expiresAtMs < 0 ? 3 : 5);
    writer.argument("SET");
    writer.argument(value.key);
    writer.range(value.bytes, value.start, value.end);
    if (expiresAtMs < 0) return;
    writer.argument("PXAT");
    writer.argument(expiresAtMs);
  }

  /** Adds a string without an expiry to an MSET. It has no note, and its order among the other commands is not kept. */
  pair(pair: StringPair): void {
    this.#strings ??= new MsetWriter(this.#pool);
    this.#strings.add(pair);
  }

  /** For hot paths: the writer, after counting a command without a note that the caller encodes with it. */
  writer(): RespWriter {
    this.notes.push(undefined);
    return this.#writer;
  }

  /** Adds the strings that were collected. */
  #addStrings(): void {
    if (this.#strings === undefined) return;
    const { commands, pieces } = this.#strings.take();
    for (const piece of pieces) this.#writer.raw(piece);
    for (let n = 0; n < commands; n++) this.notes.push(undefined);
    this.#msets += commands;
  }

  /** Reads commands back from the encoded bytes, by their index. */
  sent(indexes: ReadonlySet<number>): Map<number, SentCommand> {
    const found = new Map<number, SentCommand>();
    const reader = new CommandReader();
    let db = 0;
    let index = 0;
    for (const piece of this.encoded()) {
      reader.push(piece);
      for (let next = reader.next(); next !== undefined; next = reader.next(), index++) {
        const { argv } = next;
        if (String(argv[0]) === "SELECT") db = Number(argv[1]);
        if (indexes.has(index)) found.set(index, { argv, db });
      }
    }
    return found;
  }

  /** Gives the memory back to the pool. Neither the transaction nor its bytes may be used after that. */
  release(): void {
    this.#strings?.release();
    this.#writer.release();
  }

  /** Ends the body in database 0 and returns its bytes. Repeated calls return the same bytes. */
  encoded(): readonly Buffer[] {
    if (this.#encoded === undefined) {
      this.#addStrings();
      this.select(0);
      this.#bytes = this.#writer.size;
      this.#encoded = this.#writer.take();
    }
    return this.#encoded;
  }
}
