/**
 * Keys that the target expired although the source had renewed them.
 *
 *   source   SET k v PX 5000 ........ HSET k f 1, PEXPIRE k 60000 ......
 *   target   SET k v PX 5000 ................. k expires ............... HSET k f 1, PEXPIREAT k: too late
 *                                    '--- task stopped, or behind ---'
 *
 * The target expires keys by its own clock, so commands that are applied late may rely on a key that is gone. They
 * would do nothing, fail, or build a value from the last changes only. Before a late batch, the keys that it relies on
 * are looked up in the target. A key that is missing, or about to expire, is in doubt:
 *
 *   doubt     the key is added to a set in the target before the batch is applied. Its commands are applied unchanged;
 *             errors of commands before the offset of the value are ignored, because the value includes them
 *   read      the key is read again from the source, at an offset X of the stream
 *   written   before the first unit after X, that value replaces the value of the target
 *   settled   when that write is committed, the key is removed from the set
 *
 * Commands that are not late are not examined. If one of them fails because there is no such key, or fails
 * to set or remove an expiry (the reply is 0), its keys are in doubt too: the source had the key, or the command would
 * not be in the stream. If a batch took long to be applied, all keys that it relies on are in doubt.
 *
 * A key in doubt may also be a new one; then reading it was unnecessary but harmless. Extra members of the set are
 * harmless too. So the set needs no fence, and after a crash its keys are read again.
 */
import type { Logger } from "@ropeway/core";
import { ConnectFailedError, ConnectionLostError } from "@ropeway/core";
import { Backoff, sleep } from "@ropeway/core/internal";
import { keysOf } from "../command/keys.ts";
import { specOf } from "../command/table.ts";
import type { Mapping } from "../mapping.ts";
import { ErrorReply, type Reply } from "../resp/reply-reader.ts";
import type { KeyQuery, TargetReader } from "../sink/sink.ts";
import type { Transaction } from "../sink/transaction.ts";
import type { StreamNote } from "./applier.ts";
import {
  doubtful,
  nameOf,
  type Place,
  placeOf,
  reliedOn,
  type Touch,
  touchesOf,
} from "./reliance.ts";

/** What is needed to find such keys and to read them. */
export interface VanishedKeysOptions {
  /** The set in the target. */
  readonly setKey: string;
  readonly mapping: Mapping;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  /** Opens a reader of the target. */
  reader(): Promise<TargetReader>;
  /** Reads keys of a database of the source at one offset, as the commands that write them. */
  read(db: number, keys: readonly Buffer[]): Promise<ReadKeys>;
  /** For a cluster as the source: another part reads and writes the keys, and owns the set. */
  readonly handOver?: ((keys: readonly Buffer[]) => void) | undefined;
}

/** Keys of the source as they were at the offset, as commands in order. */
export interface ReadKeys {
  readonly offset: number;
  readonly writes: readonly (readonly Buffer[])[];
}

/** A command of the source. */
export interface SourceWrite {
  readonly db: number;
  readonly argv: readonly Buffer[];
}

interface Reading {
  readonly names: readonly string[];
  readonly offset: number;
  readonly writes: readonly SourceWrite[];
}

/** Keys with a shorter lifetime than this may be gone when the batch arrives. */
const MARGIN_MS = 10_000;
/** Commands that are older than this are late. */
export const LATE_MS = 1_000;
const READ_KEYS = 100;
const PAGE = 1_000;
const PAUSE_MS = 100;
/** The error replies of servers to a command that needs a key. */
const MISSING = /no such key|requires the key to exist|^NOGROUP/i;
const EXPIRING = new Set(["expire", "expireat", "pexpire", "pexpireat", "persist"]);

/** Finds vanished keys of one shard, and writes them as the source has them. */
export class VanishedKeys {
  readonly #options: VanishedKeysOptions;
  /** Keys in doubt, by their name at the target. */
  readonly #doubts = new Set<string>();
  /** Keys that were written. They leave the set when the offset is applied. */
  #written: { readonly name: string; readonly offset: number }[] = [];
  #reading: Reading | undefined;
  /** Keys that were handed over with the batch under way. */
  #handed: ReadonlySet<string> = new Set();
  #reader: TargetReader | undefined;
  /** Keys that commands of the batch under way did not find. */
  readonly #missed = new Map<string, Place & { readonly surely: boolean }>();
  #applied = -1;
  /** Whether the keys of the batch under way were looked up. */
  #checked = false;
  #refused = false;
  /** Commands of the batch under way whose effect a later value includes. */
  #covered: ReadonlySet<StreamNote> = new Set();

  constructor(options: VanishedKeysOptions) {
    this.#options = options;
  }

  /** Whether no key is in doubt. */
  get settled(): boolean {
    return this.#doubts.size === 0 && this.#written.every(({ offset }) => offset <= this.#applied);
  }

  /** Takes over the keys that an earlier run left. Call it before a stream begins. */
  async begin(): Promise<void> {
    this.#doubts.clear();
    this.#written = [];
    this.#reading = undefined;
    const { setKey, handOver } = this.#options;
    if (handOver !== undefined) return;
    const key = Buffer.from(setKey);
    let cursor = "0";
    do {
      const argv = ["SSCAN", setKey, cursor, "COUNT", PAGE];
      const [reply] = await this.#query([{ db: 0, key, argv }]);
      if (!Array.isArray(reply)) return;
      const [next, members] = reply as [Buffer, Buffer[]];
      for (const member of members) this.#doubts.add(member.toString("latin1"));
      cursor = String(next);
    } while (cursor !== "0");
  }

  /**
   * Whether an error of a command is ignored, because a later value includes its change. A command
   * that is not late may also find that its key has just expired.
   */
  explains(note: StreamNote, reply: string): boolean {
    if (this.#refused) return false;
    if (MISSING.test(reply)) this.#miss(note, true);
    if (this.#covered.has(note)) return true;
    const names = (keysOf(note.argv) ?? []).map((at) =>
      nameOf({ db: note.db, key: note.argv[at] as Buffer }),
    );
    return names.length > 0 && names.every((name) => this.#missed.get(name)?.surely);
  }

  /** Commands whose keys are all written as a whole after them, in this batch or later. */
  #coveredOf(touches: readonly Touch[]): Set<StreamNote> {
    const here = new Set(
      touches.flatMap(({ note, places }) => (note.inserted ? places.map(nameOf) : [])),
    );
    const later = new Set([
      ...this.#unfinished().filter((name) => !here.has(name)),
      ...this.#doubts,
      ...this.#handed,
    ]);
    const overwritten = new Set<string>();
    const covered = new Set<StreamNote>();
    for (const { note, places, relies, swaps } of touches.toReversed()) {
      if (swaps !== undefined) overwritten.clear(); // before a swap, the same names mean other keys
      const names = places.map(nameOf);
      const isCovered = (name: string) => later.has(name) || overwritten.has(name);
      if (names.length > 0 && names.every(isCovered)) covered.add(note);
      if (!relies) for (const name of names) overwritten.add(name);
    }
    return covered;
  }

  /** Keys whose value has not reached the target yet. */
  #unfinished(): string[] {
    if (this.#written.length === 0) return [];
    return this.#written.filter(({ offset }) => offset > this.#applied).map(({ name }) => name);
  }

  /** A command changed nothing. At the source it did, or it would not be in the stream. */
  idle(note: StreamNote): void {
    // PERSIST finds no expiry if the target has its own version of the key, and conditions may not be met there.
    const { argv } = note;
    if (EXPIRING.has(specOf(argv)?.name ?? "")) this.#miss(note, argv.length === 3);
  }

  /** The replies of a batch were lost. Any of its commands may have failed, so all its keys are read again. */
  lost(notes: readonly (StreamNote | undefined)[]): boolean {
    if (this.#refused) return false;
    for (const note of notes) if (note !== undefined && !note.own) this.#miss(note, true);
    return true;
  }

  #miss({ argv, db }: StreamNote, surely: boolean): void {
    for (const at of keysOf(argv) ?? []) {
      const place = { db, key: argv[at] as Buffer, surely };
      const name = nameOf(place);
      if (surely || !this.#missed.has(name)) this.#missed.set(name, place);
    }
  }

  /** Looks up keys that the batch relies on. Call it before the batch is applied, and again if that took long. */
  async check(notes: readonly (StreamNote | undefined)[], late: boolean): Promise<void> {
    this.#handed = new Set();
    this.#covered = new Set();
    this.#checked = late;
    const settled = this.#doubts.size === 0 && this.#unfinished().length === 0;
    if (this.#refused || (!late && settled)) return;
    const touches = touchesOf(notes);
    const lifetimes = late ? await this.#lifetimes(reliedOn(touches)) : new Map<string, number>();
    const known = this.#doubts;
    const mending = this.#unfinished(); // the next batch may have taken keys over meanwhile
    const nowMs = Date.now();
    const marginMs = late ? MARGIN_MS : 0;
    const found = doubtful(touches, { lifetimes, known, mending, nowMs, marginMs });
    await this.#add([...found]);
    this.#covered = this.#coveredOf(touches);
  }

  /** Call it when the batch is applied. If that took long, any key that it relies on may have expired before. */
  async doubt(notes: readonly (StreamNote | undefined)[], tookMs: number): Promise<void> {
    if (this.#refused) return;
    if (this.#doubts.size + this.#written.length > 0 && notes.some(emptiesDb)) {
      const noted = [...this.#doubts, ...this.#unfinished()];
      await this.#save(noted.map((name) => Buffer.from(name, "latin1")));
    }
    if (this.#missed.size > 0) {
      const lifetimes = await this.#lifetimes(this.#missed);
      const isMissing = (name: string) =>
        this.#missed.get(name)?.surely || lifetimes.get(name) === -2;
      const names = [...this.#missed.keys()].filter((name) => !this.#doubts.has(name));
      await this.#add(names.filter(isMissing));
      this.#missed.clear();
    }
    if (tookMs < (this.#checked ? MARGIN_MS : LATE_MS)) return;
    const names = [...reliedOn(touchesOf(notes)).keys()];
    await this.#add(names.filter((name) => !this.#doubts.has(name)));
  }

  /** Whether there are keys to be read. */
  get due(): boolean {
    return this.#doubts.size > 0 && this.#reading === undefined && !this.#refused;
  }

  /** A read that must finish before the next unit is taken. */
  pending(): Promise<void> | undefined {
    return this.due ? this.#read() : undefined;
  }

  /** The values to write before the unit between the offsets. */
  *before(begins: number, ends: number): Generator<SourceWrite, void> {
    const reading = this.#reading;
    if (reading === undefined || begins < reading.offset) return;
    this.#reading = undefined;
    for (const name of reading.names) {
      this.#doubts.delete(name);
      this.#written.push({ name, offset: ends });
    }
    yield* reading.writes;
  }

  /** Removes settled keys from the set, together with the batch. Call it after `check`, which may doubt them again. */
  after(into: Transaction<StreamNote>): boolean {
    if (this.#written.length === 0) return false;
    const done = this.#written.filter(({ offset }) => offset <= this.#applied);
    if (done.length === 0) return false;
    this.#written = this.#written.filter(({ offset }) => offset > this.#applied);
    const names = done.map(({ name }) => name).filter((name) => !this.#doubts.has(name));
    if (names.length === 0) return false;
    const words = ["SREM", this.#options.setKey].map((word) => Buffer.from(word));
    const argv = [...words, ...names.map((name) => Buffer.from(name, "latin1"))];
    into.select(0);
    into.command(argv, { argv, db: 0, own: true });
    return true;
  }

  /** Call it when everything up to the offset is committed. */
  applied(offset: number): void {
    this.#applied = offset;
  }

  close(): void {
    this.#reader?.close();
    this.#reader = undefined;
  }

  /** The keys of the source that are copied to a key of the target. */
  #origins({ db, key }: Place): Place[] {
    const { mapping } = this.#options;
    const dbs = mapping.dbs?.filter((each) => mapping.db(each) === db) ?? [db];
    return dbs.flatMap((each) => mapping.origins(key).map((name) => ({ db: each, key: name })));
  }

  async #lifetimes(places: ReadonlyMap<string, Place>): Promise<Map<string, number>> {
    const names = [...places.keys()];
    const queries = Array.from(places.values(), ({ db, key }) => ({
      ...{ db, key },
      argv: ["PTTL", key],
    }));
    const replies = queries.length === 0 ? [] : await this.#query(queries);
    const found = new Map<string, number>();
    names.forEach((name, at) => {
      if (typeof replies[at] === "number") found.set(name, replies[at]);
    });
    return found;
  }

  async #add(found: readonly string[]): Promise<void> {
    const { handOver } = this.#options;
    const names = found.filter((name) => this.#origins(placeOf(name)).length > 0);
    if (names.length === 0) return;
    if (handOver === undefined) {
      for (const name of names) this.#doubts.add(name);
      await this.#save(names.map((name) => Buffer.from(name, "latin1")));
      return;
    }
    this.#handed = new Set(names);
    const keys = names.flatMap((name) => this.#origins(placeOf(name)).map(({ key }) => key));
    await this.#save(keys);
    handOver(keys);
  }

  async #save(members: readonly Buffer[]): Promise<void> {
    const { setKey, logger } = this.#options;
    const argv = ["SADD", setKey, ...members];
    const [reply] = await this.#query([{ db: 0, key: Buffer.from(setKey), argv }]);
    if (!(reply instanceof ErrorReply)) return;
    // This run still has them in memory; only a crash would lose them.
    logger.warn({ keys: members.length, reply: reply.message }, "cannot record keys in doubt");
  }

  /** Reads some of the keys at the current offset of the source. */
  async #read(): Promise<void> {
    const { read, logger, signal } = this.#options;
    const first = this.#doubts.values().next().value as string;
    const { db } = this.#origins(placeOf(first))[0] ?? placeOf(first);
    const names: string[] = [];
    const keys: Buffer[] = [];
    for (const name of this.#doubts) {
      const origins = this.#origins(placeOf(name));
      const own = origins.filter((origin) => origin.db === db);
      if (own.length === 0) {
        if (origins.length === 0) this.#doubts.delete(name); // the mapping has changed
        continue;
      }
      names.push(name);
      keys.push(...own.map(({ key }) => key));
      if (names.length >= READ_KEYS) break;
    }
    if (names.length === 0) return;
    try {
      const { offset, writes } = await read(db, keys);
      this.#reading = { names, offset, writes: writes.map((argv) => ({ db, argv })) };
    } catch (error) {
      if (isPassing(error)) return sleep(PAUSE_MS, signal); // it is read again then
      this.#refused = true;
      logger.warn(
        { err: error, keys: this.#doubts.size },
        "keys that expired at the target too early cannot be read from the source; run sync verify --repair",
      );
      this.#doubts.clear();
    }
  }

  /** Queries the target until it replies. */
  async #query(queries: readonly KeyQuery[]): Promise<Reply[]> {
    const { signal } = this.#options;
    const backoff = new Backoff({ baseMs: 20, maxMs: 1_000 });
    for (;;) {
      try {
        this.#reader ??= await this.#options.reader();
        return await this.#reader.query(queries);
      } catch (error) {
        this.close();
        if (!isPassing(error) || signal.aborted) throw error;
        await sleep(backoff.next(), signal);
      }
    }
  }
}

/** Whether the set may have been deleted with its database, or moved to another one. */
function emptiesDb(note: StreamNote | undefined): boolean {
  const name = note === undefined ? undefined : specOf(note.argv)?.name;
  return name === "flushall" || name === "flushdb" || name === "swapdb";
}

function isPassing(error: unknown): boolean {
  return error instanceof ConnectFailedError || error instanceof ConnectionLostError;
}
