/**
 * Writes one key of a snapshot into a transaction, in the cheapest way that the target supports:
 *
 *   plain string        MSET key value key value ...             several together, on one server
 *   with an expiry      SET key value PXAT ms                    1.0 to 1.4 times as fast as RESTORE
 *   anything else       RESTORE key ms payload REPLACE ABSTTL     the raw bytes of the snapshot with a new footer
 *   type too new        the commands that build the value
 *
 * Value and expiry are in one command, or at least in one transaction.
 */

import {
  dumpPayload,
  FOOTER_BYTES,
  footerVersion,
  readDump,
  sealPayload,
} from "../dump/payload.ts";
import type { KeyReason } from "../progress.ts";
import type { RdbKey } from "../rdb/entry.ts";
import { type StringPair, TOO_LONG_FOR_MSET } from "../resp/mset-writer.ts";
import { DOLLAR, LONGEST_HEAD } from "../resp/page.ts";
import type { Abilities } from "../sink/abilities.ts";
import type { CommandBatch, SentCommand, Transaction } from "../sink/transaction.ts";
import { BigKey } from "../value/big-key.ts";
import { commandsOf, ValueCommands } from "../value/commands.ts";
import { decodeValue, type RawValue } from "../value/decode.ts";
import { needsShift, shiftedParts } from "../value/shift-fields.ts";

/** A key that is being written to the target. */
export interface LoadNote {
  /** The value in the snapshot, if it can be written in another way. */
  readonly source: RawValue | undefined;
  readonly key: Buffer;
  /** The database at the target. */
  readonly db: number;
  /** The expiry to write; -1 if none. */
  readonly expiresAtMs: number;
  readonly path: KeyReason;
}

/** The note of a command that was written without one. */
export function noteOf({ argv, db }: SentCommand): LoadNote {
  const [name, key, ttl, payload] = argv as readonly [Buffer, Buffer, Buffer, Buffer];
  if (String(name) === "RESTORE") {
    const expiresAtMs = Number(ttl) || -1;
    return { source: readDump(payload), key, db, expiresAtMs, path: "restore" };
  }
  const expiresAtMs = argv.length < 5 ? -1 : Number(argv[4]);
  return { source: undefined, key, db, expiresAtMs, path: "set" };
}

/** The note of a whole key. Its name becomes a Buffer only on demand. */
export class KeyNote implements LoadNote {
  readonly source: RdbKey;
  readonly db: number;
  readonly expiresAtMs: number;
  readonly path: KeyReason;
  readonly renamed: Buffer | undefined;

  constructor(fields: Omit<KeyNote, "key">) {
    this.source = fields.source;
    this.db = fields.db;
    this.expiresAtMs = fields.expiresAtMs;
    this.path = fields.path;
    this.renamed = fields.renamed;
  }

  get key(): Buffer {
    return this.renamed ?? this.source.key;
  }
}

/** Where and how a key is written. */
export interface Place {
  readonly renamed: Buffer | undefined;
  readonly expiresAtMs: number;
  readonly path: KeyReason;
}

/** How keys are written. */
export interface KeyWriterOptions {
  readonly abilities: Abilities;
  readonly existing: "replace" | "keep" | "fail";
  readonly path: "auto" | "fast" | "slow";
  /** Added to every expiry. */
  readonly ttlShiftMs: number;
  /** Distinguishes runs in the names of temporary keys. */
  readonly token: string;
}

const STRING = 0;
const SET_3 = Buffer.from("*3\r\n$3\r\nSET\r\n");
const SET_5 = Buffer.from("*5\r\n$3\r\nSET\r\n");
const PXAT = Buffer.from("$4\r\nPXAT\r\n");
const RESTORE_5 = Buffer.from("*5\r\n$7\r\nRESTORE\r\n");
const RESTORE_6 = Buffer.from("*6\r\n$7\r\nRESTORE\r\n");
const NEVER = Buffer.from("$1\r\n0\r\n");
/** With the end of the payload before it. */
const REPLACE = Buffer.from("\r\n$7\r\nREPLACE\r\n");
const REPLACE_ABSTTL = Buffer.from("\r\n$7\r\nREPLACE\r\n$6\r\nABSTTL\r\n");
/** More than all of a RESTORE but its key and its payload. */
const RESTORE_BYTES = 96 + 2 * LONGEST_HEAD;
const MOST_TYPES = 256;
/** At or above this value, the first byte of a string gives its encoding. */
const FIRST_ENCODING = 0xc0;

/** Writes keys of a snapshot in the cheapest way that the target supports. */
export class KeyWriter {
  readonly #options: KeyWriterOptions;
  /** The footer's version by type, from MOST_TYPES on those of Valkey; 0 if RESTORE cannot take the type. */
  readonly #footers: (number | undefined)[] = new Array(2 * MOST_TYPES).fill(undefined);
  /** Whether `copy` can write strings, and other values. */
  readonly #copiesStrings: boolean;
  readonly #copiesValues: boolean;

  constructor(options: KeyWriterOptions) {
    this.#options = options;
    const { abilities, existing } = options;
    const { restoreAbsTtl, restoreReplace, setPxAt } = abilities;
    this.#copiesStrings = existing === "replace" && setPxAt;
    this.#copiesValues = existing === "replace" && restoreAbsTtl && restoreReplace;
  }

  /** The best way to write the key. */
  pathOf(key: RdbKey): KeyReason {
    const { path, abilities, existing, ttlShiftMs } = this.#options;
    if (path === "slow" || needsShift(key, ttlShiftMs)) return "policy";
    // SET has no options for idle time, frequency or metadata, and cannot fail if the key exists.
    const plain = key.idleS < 0 && key.freq < 0 && key.meta === undefined;
    if (key.type === STRING && plain && existing === "replace") return "set";
    return this.#footer(key) === 0 || abilities.rdbVersion === 0 ? "type" : "restore";
  }

  /**
   * Writes the key of a note that `path` describes, but without the note: the transaction gets a copy of the bytes and
   * nothing else. Returns false, with nothing written, if the key needs its note.
   */
  copy(source: RdbKey, to: Place, into: Transaction<LoadNote>): boolean {
    if (to.path === "set") {
      if (!this.#copiesStrings) return false;
      this.#copyString(source, to, into);
      return true;
    }
    const usual = to.path === "restore" && source.freq < 0 && source.idleS < 0;
    if (!usual || !this.#copiesValues) return false;
    this.#copyValue(source, to, into);
    return true;
  }

  /** Writes the key. The caller selects the database first. */
  write(note: KeyNote, into: CommandBatch<LoadNote>): void {
    if (note.path === "set") this.#set(note, into);
    else if (note.path === "restore") this.#restore(note, into);
    else this.build(note.source, note, into);
  }

  #footer({ family, type }: RdbKey): number {
    const id = family === "redis" ? type : type + MOST_TYPES;
    const known = this.#footers[id];
    if (known !== undefined) return known;
    const version = footerVersion(family, type, this.#options.abilities.rdbVersion) ?? 0;
    this.#footers[id] = version;
    return version;
  }

  #copyString(source: RdbKey, { renamed, expiresAtMs }: Place, into: Transaction<LoadNote>): void {
    source.textStart = textStart(source);
    const decoded = source.textStart === 0 ? stringOf(source) : undefined;
    const pair =
      renamed === undefined && decoded === undefined ? source : pairOf(source, renamed, decoded);
    const { keyBytes, keyStart, keyEnd, bytes, textStart: start, rawEnd } = pair;
    const expires = expiresAtMs >= 0;
    const short = keyEnd - keyStart + rawEnd - start < TOO_LONG_FOR_MSET;
    if (!expires && short && this.#options.abilities.mset) {
      into.pair(pair);
      return;
    }
    const writer = into.writer();
    writer.raw(expires ? SET_5 : SET_3);
    writer.range(keyBytes, keyStart, keyEnd);
    writer.range(bytes, start, rawEnd);
    if (!expires) return;
    writer.raw(PXAT);
    writer.argument(expiresAtMs);
  }

  #copyValue(source: RdbKey, { renamed, expiresAtMs }: Place, into: Transaction<LoadNote>): void {
    const { type, bytes, rawStart, rawEnd } = source;
    const expires = expiresAtMs >= 0;
    const key = renamed ?? source.keyBytes;
    const keyStart = renamed === undefined ? source.keyStart : 0;
    const keyEnd = renamed === undefined ? source.keyEnd : renamed.length;
    const length = 1 + rawEnd - rawStart + FOOTER_BYTES;
    const page = into.writer().page(RESTORE_BYTES + keyEnd - keyStart + length);
    page.constant(expires ? RESTORE_6 : RESTORE_5);
    page.bulk(key, keyStart, keyEnd);
    if (expires) page.string(String(Math.max(1, expiresAtMs)));
    else page.constant(NEVER);
    page.head(DOLLAR, length);
    const payload = page.at;
    page.bytes[page.at++] = type;
    page.copy(bytes, rawStart, rawEnd);
    sealPayload(page.bytes, payload, { length, version: this.#footer(source) });
    page.at += FOOTER_BYTES;
    page.constant(expires ? REPLACE_ABSTTL : REPLACE);
  }

  #set(note: KeyNote, into: CommandBatch<LoadNote>): void {
    const { abilities } = this.#options;
    const { source, expiresAtMs } = note;
    const expires = expiresAtMs >= 0;
    const inline = expires && abilities.setPxAt;
    const { bytes, rawEnd } = source;
    const at = inline ? expiresAtMs : -1;
    const start = textStart(source);
    if (start > 0) into.set({ key: note.key, bytes, start, end: rawEnd }, at, note);
    else {
      const text = stringOf(source);
      into.set({ key: note.key, bytes: text, start: 0, end: text.length }, at, note);
    }
    if (expires && !inline) into.command(["PEXPIREAT", note.key, expiresAtMs], note);
  }

  #restore(note: KeyNote, into: CommandBatch<LoadNote>): void {
    const { abilities, existing } = this.#options;
    const { source, expiresAtMs } = note;
    const absolute = abilities.restoreAbsTtl;
    const { key } = note;
    const payload = dumpPayload(source, this.#footer(source));
    const ttl =
      expiresAtMs < 0
        ? 0
        : absolute
          ? Math.max(1, expiresAtMs)
          : Math.max(1, expiresAtMs - Date.now());
    const argv: (string | number | Buffer)[] = ["RESTORE", key, ttl, payload];
    if (existing === "replace") {
      if (abilities.restoreReplace) argv.push("REPLACE");
      else into.command(["DEL", key], note);
    }
    if (absolute) {
      argv.push("ABSTTL");
      if (source.freq >= 0) argv.push("FREQ", source.freq);
      else if (source.idleS >= 0) argv.push("IDLETIME", source.idleS);
    }
    into.command(argv, note);
  }

  /** Writes the commands that build the value. */
  build(source: RawValue, note: LoadNote, into: CommandBatch<LoadNote>): void {
    const { abilities, existing, token, ttlShiftMs } = this.#options;
    const { key, expiresAtMs } = note;
    const values = [...shiftedParts(decodeValue(source), ttlShiftMs)];
    if (existing !== "replace") {
      const built = new BigKey(key, { target: abilities, token, expiresAtMs, keep: true });
      const parts = values.flatMap((part) => built.part(part));
      for (const argv of [...built.begin(), ...parts, ...built.end()]) into.command(argv, note);
      return;
    }
    const commands = [...commandsOf(new ValueCommands(key, abilities), values)];
    into.command([abilities.unlink ? "UNLINK" : "DEL", key], note);
    for (const argv of commands) into.command(argv, note);
    if (expiresAtMs >= 0) into.command(["PEXPIREAT", key, expiresAtMs], note);
  }
}

/** Where the text of a plain string begins; 0 if it is an integer or compressed. */
function textStart({ bytes, rawStart }: RdbKey): number {
  const head = bytes[rawStart] as number;
  if (head < 0x40) return rawStart + 1;
  if (head >= FIRST_ENCODING) return 0;
  return rawStart + (head < 0x80 ? 2 : head === 0x80 ? 5 : 9);
}

function pairOf(
  source: RdbKey,
  renamed: Buffer | undefined,
  decoded: Buffer | undefined,
): StringPair {
  return {
    keyBytes: renamed ?? source.keyBytes,
    keyStart: renamed === undefined ? source.keyStart : 0,
    keyEnd: renamed === undefined ? source.keyEnd : renamed.length,
    bytes: decoded ?? source.bytes,
    textStart: decoded === undefined ? source.textStart : 0,
    rawEnd: decoded === undefined ? source.rawEnd : decoded.length,
  };
}

function stringOf(source: RdbKey): Buffer {
  const pieces: Buffer[] = [];
  for (const part of decodeValue(source)) if (part.type === "string") pieces.push(part.bytes);
  return pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
}
