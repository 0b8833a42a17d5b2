/**
 * Loads a snapshot: reads its entries while they arrive, decides where and how each key is written,
 * and passes it to the lanes. Reading, writing and the target's work overlap.
 */
import type { Logger } from "@ropeway/core";
import type { Checkpoint } from "../checkpoint.ts";
import { requireDatabase } from "../database-range.ts";
import { dumpPayload } from "../dump/payload.ts";
import type { ErrorBudget } from "../error-budget.ts";
import { KeyExistsError, NotExpressibleError } from "../errors.ts";
import { expiriesKey, isOwnKey, OWN_FIRST_BYTE } from "../keys.ts";
import type { Mapping } from "../mapping.ts";
import type { Counters } from "../progress.ts";
import type { RdbBegin, RdbEntry, RdbKey, RdbKeyAttributes } from "../rdb/entry.ts";
import { RdbReader } from "../rdb/reader.ts";
import type { Abilities } from "../sink/abilities.ts";
import type { SnapshotWriter } from "../sink/load-writer.ts";
import type { Sink } from "../sink/sink.ts";
import type { CommandBatch } from "../sink/transaction.ts";
import type { Snapshot } from "../source/feed.ts";
import { type Transform, type TransformResult, transformed } from "../transform.ts";
import type { ValuePart } from "../value/part.ts";
import { shiftFields } from "../value/shift-fields.ts";
import type { BigKeyRecord } from "./big-key-record.ts";
import { BigValue } from "./big-value.ts";
import { KeyNote, KeyWriter, type LoadNote, noteOf } from "./key-writer.ts";
import type { SeenKeys } from "./seen-keys.ts";
import { fenceFrom, HeldWriter } from "./ttl-fence.ts";

/** The snapshot to load, and how. */
export interface SnapshotLoaderOptions {
  readonly snapshot: Snapshot;
  readonly sink: Sink;
  readonly abilities: Abilities;
  readonly mapping: Mapping;
  readonly counters: Counters;
  readonly budget: ErrorBudget;
  readonly task: string;
  readonly shard: number;
  readonly checkpoint: Checkpoint;
  readonly existing: "replace" | "keep" | "fail";
  readonly path: "auto" | "fast" | "slow";
  readonly bigBytes: number;
  readonly batchBytes: number;
  /** Expiries nearer than this are held back; 0 if no stream follows, so none are. */
  readonly ttlFenceMs: number;
  readonly ttlShiftMs: number;
  readonly functions: "apply" | "drop" | "stop";
  readonly transform: Transform | undefined;
  /** Collects the keys that were written, so that the sweep can delete the others. */
  readonly seen: SeenKeys | undefined;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  /** Called for every key that was written in parts. */
  onBigKey(record: BigKeyRecord): void;
}

/** Loads a snapshot into the target. */
export class SnapshotLoader {
  readonly #options: SnapshotLoaderOptions;
  readonly #keys: KeyWriter;
  readonly #held: HeldWriter;
  readonly #fenceMs: number;
  readonly #startedAt = Date.now();
  readonly #token: string;
  #writer!: SnapshotWriter<LoadNote>;
  #big: BigValue | undefined;
  /** Keys that were written and not yet counted. */
  #sets = 0;
  #restores = 0;
  /** The replication database at the end of the snapshot, if the snapshot has it. */
  streamDb = 0;

  constructor(options: SnapshotLoaderOptions) {
    this.#options = options;
    const { abilities, existing, path, task, checkpoint, ttlShiftMs } = options;
    this.#token = `${task}-${checkpoint.epoch}`;
    this.#keys = new KeyWriter({ abilities, existing, path, ttlShiftMs, token: this.#token });
    this.#fenceMs = fenceFrom(this.#startedAt);
    this.#held = new HeldWriter(this.#fenceMs);
  }

  /** Loads the whole snapshot. Resolves when everything is applied. */
  async run(): Promise<void> {
    const { sink, shard, checkpoint, snapshot, signal, counters, bigBytes } = this.#options;
    const loader = await sink.loader<LoadNote>(shard, checkpoint.epoch, {
      onFailure: (note, reply) => this.#failed(note, reply),
      noteOf,
      complete: (transaction) => this.#complete(transaction),
    });
    this.#writer = loader.writer;
    const reader = new RdbReader({ maxRawBytes: bigBytes });
    try {
      for (;;) {
        const chunk = await snapshot.read(signal);
        if (chunk === undefined) break;
        counters.snapshotBytes += chunk.length;
        counters.totalSnapshotBytes = snapshot.bytes;
        reader.push(chunk);
        for (let wait = this.#read(reader); wait !== undefined; wait = this.#read(reader))
          await wait;
      }
      reader.end();
      await this.#writer.drain();
    } finally {
      loader.close();
    }
  }

  /** Writes the entries that have arrived. Returns a promise as soon as it has to wait, and undefined at the end. */
  #read(reader: RdbReader): Promise<void> | undefined {
    try {
      for (let entry = reader.next(); entry !== undefined; entry = reader.next()) {
        const waiting = entry.kind === "key" ? this.#key(entry, reader) : this.#other(entry);
        if (waiting !== undefined) return waiting;
      }
      return undefined;
    } finally {
      this.#countCopies();
    }
  }

  #countCopies(): void {
    const { counters } = this.#options;
    if (this.#sets > 0) counters.count("set", this.#sets);
    if (this.#restores > 0) counters.count("restore", this.#restores);
    counters.keys += this.#sets + this.#restores;
    this.#sets = 0;
    this.#restores = 0;
  }

  /** Writes a whole key. Returns a promise only if the lanes are busy. */
  #key(source: RdbKey, reader: RdbReader): Promise<void> | undefined {
    const { counters, mapping, seen, abilities } = this.#options;
    const db = mapping.db(source.db);
    if (db === undefined || !this.#copies(source)) {
      counters.count(isOwnKey(source.key) ? "own" : "filtered");
      return undefined;
    }
    requireDatabase(db, abilities.databases);
    const renamed = mapping.renames ? mapping.key(source.key) : undefined;
    const expiresAtMs =
      source.expiresAtMs < 0 ? -1 : this.#expiry(source, db, renamed ?? source.key);
    if (expiresAtMs === undefined) {
      counters.count("expired");
      return undefined;
    }
    const path = this.#keys.pathOf(source);
    const current = this.#options.transform === undefined ? this.#writer.current : undefined;
    if (current !== undefined) {
      current.select(db);
      if (this.#keys.copy(source, { renamed, expiresAtMs, path }, current)) {
        if (path === "set") this.#sets += 1;
        else this.#restores += 1;
        seen?.add(db, renamed ?? source.key);
        reader.reuse(source);
        return this.#writer.written();
      }
    }
    const note = new KeyNote({ source, renamed, db, expiresAtMs, path });
    const into = this.#writer.batchFor(note);
    into.select(db);
    const instead = this.#transformed(note);
    if (instead === false) {
      counters.count("filtered");
      return undefined;
    }
    try {
      if (instead === true) this.#keys.write(note, into);
      else for (const argv of instead) into.command(argv, note);
    } catch (error) {
      this.#inexpressible(note, error);
      return undefined;
    }
    counters.keys += 1;
    counters.count(path);
    seen?.add(db, note.key);
    return this.#writer.written();
  }

  /** Whether the key is copied. Most keys are, and this needs no view of their name. */
  #copies(source: RdbKey): boolean {
    const { mapping } = this.#options;
    const { keyBytes, keyStart, keyEnd } = source;
    const plain = keyStart < keyEnd && keyBytes[keyStart] !== OWN_FIRST_BYTE;
    return (mapping.identity && plain) || mapping.copies(source.key);
  }

  /** The result of the user's function for a key: the key itself, nothing, or other commands. */
  #transformed(note: KeyNote): TransformResult {
    const { transform } = this.#options;
    if (transform === undefined) return true;
    const { key, db, source, expiresAtMs } = note;
    const ttl = Buffer.from(String(Math.max(0, expiresAtMs)));
    const argv = [Buffer.from("RESTORE"), key, ttl, dumpPayload(source)];
    const input = { command: "RESTORE", argv, keys: [key], db, phase: "snapshot" } as const;
    return transformed(transform, input);
  }

  /** The expiry to write, -1 for none; undefined if the key has expired and nothing can renew it. */
  #expiry(source: RdbKeyAttributes, db: number, key: Buffer): number | undefined {
    if (source.expiresAtMs < 0) return -1;
    const { ttlFenceMs, ttlShiftMs, sink } = this.#options;
    const at = source.expiresAtMs + ttlShiftMs;
    if (sink.keepsExpired) return Math.max(1, at);
    const now = Date.now();
    if (ttlFenceMs === 0) return at <= now ? undefined : at;
    // The longer the load takes, the longer the following stream takes.
    if (at > now + Math.max(ttlFenceMs, 2 * (now - this.#startedAt))) return at;
    this.#held.expiry(db, key, at);
    return this.#fenceMs;
  }

  /** Adds the expiries that were held back for the keys of this transaction. */
  #complete(transaction: CommandBatch<LoadNote>): void {
    if (this.#held.empty) return;
    const { task, shard } = this.#options;
    const key = Buffer.from(expiriesKey(task, shard));
    const note: LoadNote = { source: undefined, key, db: 0, expiresAtMs: -1, path: "own" };
    transaction.select(0);
    transaction.command(["RPUSH", key, this.#held.take()], note);
  }

  #other(entry: Exclude<RdbEntry, RdbKey>): Promise<void> | undefined {
    const { counters } = this.#options;
    switch (entry.kind) {
      case "aux":
        return this.#aux(entry.name, entry.value);
      case "resize":
        counters.totalKeys = (counters.totalKeys ?? 0) + entry.keys;
        return undefined;
      case "function":
        return this.#function(entry.code);
      case "module-aux":
        this.#options.budget.spend(
          [Buffer.from("MODULE_AUX"), Buffer.from(entry.module)],
          0,
          `data of module ${entry.module} outside of keys cannot be written by any command`,
        );
        return undefined;
      case "begin":
        return this.#begin(entry);
      case "part":
        return this.#part(entry.part);
      case "end":
        return this.#end(entry.bytes, entry.elements);
      default:
        return undefined;
    }
  }

  #aux(name: string, value: Buffer): Promise<void> | undefined {
    if (name === "repl-stream-db") this.streamDb = Number(value);
    if (name !== "lua") return undefined;
    const note = this.#note(Buffer.from("lua"), 0);
    return this.#writer.everywhere(["SCRIPT", "LOAD", value], note);
  }

  #function(code: Buffer): Promise<void> | undefined {
    const { functions, abilities, budget } = this.#options;
    if (functions === "drop") return undefined;
    const name = Buffer.from("FUNCTION");
    if (functions === "stop" || !abilities.functions) {
      const why =
        functions === "stop" ? 'the option functions is "stop"' : "the target has no functions";
      budget.spend([name, code.subarray(0, 100)], 0, why);
      return undefined;
    }
    return this.#writer.everywhere(["FUNCTION", "LOAD", "REPLACE", code], this.#note(name, 0));
  }

  async #begin(entry: RdbBegin): Promise<void> {
    const { mapping, abilities, existing, batchBytes, counters, seen } = this.#options;
    const db = mapping.db(entry.db);
    if (db === undefined || !mapping.copies(entry.key)) {
      counters.count("filtered");
      return;
    }
    requireDatabase(db, abilities.databases);
    const key = Buffer.from(mapping.key(entry.key));
    const expiresAtMs = this.#expiry(entry, db, key);
    if (expiresAtMs === undefined) {
      counters.count("expired");
      return;
    }
    seen?.add(db, key);
    this.#big = new BigValue({
      key,
      db,
      batchBytes,
      bigKey: { target: abilities, token: this.#token, expiresAtMs, keep: existing !== "replace" },
      note: { source: undefined, key, db, expiresAtMs, path: "big" },
      separate: () => this.#writer.separate(key),
      commit: (transaction) => this.#writer.commit(transaction),
      commitLast: (transaction) => this.#writer.commitLast(transaction),
    });
    await this.#big.begin();
  }

  #part(part: ValuePart): Promise<void> | undefined {
    const big = this.#big;
    if (big === undefined) return undefined;
    try {
      return big.part(shiftFields(part, this.#options.ttlShiftMs));
    } catch (error) {
      this.#big = undefined; // the other parts are left out
      return big.abandon().then(() => this.#inexpressible(big, error));
    }
  }

  async #end(bytes: number, elements: number): Promise<void> {
    const big = this.#big;
    if (big === undefined) return;
    this.#big = undefined;
    const { counters, sink, onBigKey } = this.#options;
    const durationMs = await big.end();
    counters.keys += 1;
    counters.count("big");
    const { key, db, type } = big;
    const size = { bytes, elements, path: "big", durationMs } as const;
    const record: BigKeyRecord = { key: String(key), db, type, ...size };
    onBigKey(record);
    await sink.record("bigkey", [record]);
  }

  /** A command failed: write the key in another way, count it, or give up. */
  async #failed(note: LoadNote, reply: string): Promise<void> {
    const { existing, counters, budget } = this.#options;
    const { key, db, expiresAtMs } = note;
    // RENAMENX of a value that expired while it was built.
    if (/no such key/.test(reply) && expiresAtMs >= 0 && expiresAtMs <= Date.now()) return;
    if (/BUSYKEY|name is busy/.test(reply)) {
      if (existing === "fail") throw new KeyExistsError(String(key), db);
      counters.count("kept");
      return;
    }
    const refused = /Bad data format|version or checksum/i.test(reply);
    if (note.source !== undefined && refused && note.path === "restore") {
      const retry = this.#writer.separate(key);
      retry.select(db);
      const { source } = note;
      try {
        this.#keys.build(source, { source, key, db, expiresAtMs, path: "retried" }, retry);
      } catch (error) {
        this.#inexpressible(note, error);
        return;
      }
      counters.count("retried");
      await this.#writer.commit(retry, true);
      return;
    }
    budget.spend([Buffer.from(note.path === "set" ? "SET" : "RESTORE"), key], db, reply);
  }

  /** Counts a value that no commands of the target can write. Other errors are thrown again. */
  #inexpressible({ key, db }: { readonly key: Buffer; readonly db: number }, error: unknown): void {
    if (!(error instanceof NotExpressibleError)) throw error;
    this.#options.budget.spend([Buffer.from("RESTORE"), key], db, error.message);
  }

  #note(key: Buffer, db: number): LoadNote {
    return { source: undefined, key, db, expiresAtMs: -1, path: "own" };
  }
}
