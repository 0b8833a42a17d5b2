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

import { dumpPayload, FOOTER_BYTES, footerVersion, sealPayload } from "../dump/payload.ts";
import type { KeyReason } from "../progress.ts";
import type { RdbKey } from "../rdb/entry.ts";
import type { RespWriter } from "../resp/writer.ts";
import type { Abilities } from "../sink/abilities.ts";
import type { CommandBatch } from "../sink/transaction.ts";
import { BigKey } from "../value/big-key.ts";
import { commandsOf, ValueCommands } from "../value/commands.ts";
import { decodeValue } from "../value/decode.ts";
import { needsShift, shiftedParts } from "../value/shift-fields.ts";

/** A key that is being written to the target. */
export interface LoadNote {
  /** The key in the snapshot; undefined if it was written in parts. */
  readonly source: RdbKey | undefined;
  readonly key: Buffer;
  /** The database at the target. */
  readonly db: number;
  /** The expiry to write; -1 if none. */
  readonly expiresAtMs: number;
  readonly path: KeyReason;
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
const RESTORE_5 = Buffer.from("*5\r\n$7\r\nRESTORE\r\n");
const RESTORE_6 = Buffer.from("*6\r\n$7\r\nRESTORE\r\n");
const REPLACE = Buffer.from("$7\r\nREPLACE\r\n");
const ABSTTL = Buffer.from("$6\r\nABSTTL\r\n");
/** At or above this value, the first byte of a string gives its encoding. */
const FIRST_ENCODING = 0xc0;

/** Writes keys of a snapshot in the cheapest way that the target supports. */
export class KeyWriter {
  readonly #options: KeyWriterOptions;
  readonly #footers = new Map<number, number | undefined>();

  constructor(options: KeyWriterOptions) {
    this.#options = options;
  }

  /** The best way to write the key. */
  pathOf(key: RdbKey): KeyReason {
    const { path, abilities, existing, ttlShiftMs } = this.#options;
    if (path === "slow" || needsShift(key, ttlShiftMs)) return "policy";
    // SET has no options for idle time, frequency or metadata, and cannot fail if the key exists.
    const plain = key.idleS < 0 && key.freq < 0 && key.meta === undefined;
    if (key.type === STRING && plain && existing === "replace") return "set";
    return this.#footer(key) === undefined || abilities.rdbVersion === 0 ? "type" : "restore";
  }

  /** Writes the key. The caller selects the database first. */
  write(note: KeyNote, into: CommandBatch<LoadNote>): void {
    if (note.path === "set") this.#set(note, into);
    else if (note.path === "restore") this.#restore(note, into);
    else this.#slow(note, into);
  }

  #footer({ family, type }: RdbKey): number | undefined {
    const id = family === "redis" ? type : type + 256;
    if (!this.#footers.has(id)) {
      this.#footers.set(id, footerVersion(family, type, this.#options.abilities.rdbVersion));
    }
    return this.#footers.get(id);
  }

  #set(note: KeyNote, into: CommandBatch<LoadNote>): void {
    const { abilities } = this.#options;
    const { source, expiresAtMs } = note;
    const expires = expiresAtMs >= 0;
    const inline = expires && abilities.setPxAt;
    const { bytes, rawStart } = source;
    const head = bytes[rawStart] as number;
    const at = inline ? expiresAtMs : -1;
    const together = !expires && abilities.mset;
    // A plain string is copied from the snapshot unchanged; integers and compressed strings are decoded.
    if (head < FIRST_ENCODING) {
      const start = rawStart + (head < 0x40 ? 1 : head < 0x80 ? 2 : head === 0x80 ? 5 : 9);
      if (together && note.renamed === undefined && into.pair !== undefined) {
        source.textStart = start;
        into.pair(source, note);
      } else into.set({ key: note.key, bytes, start, end: source.rawEnd }, at, note);
    } else {
      const text = stringOf(source);
      into.set({ key: note.key, bytes: text, start: 0, end: text.length }, at, note);
    }
    if (expires && !inline) into.command(["PEXPIREAT", note.key, expiresAtMs], note);
  }

  #restore(note: KeyNote, into: CommandBatch<LoadNote>): void {
    const { abilities, existing } = this.#options;
    const { source, expiresAtMs } = note;
    const absolute = abilities.restoreAbsTtl;
    const usual = absolute && existing === "replace" && abilities.restoreReplace;
    if (usual && source.freq < 0 && source.idleS < 0 && into.writer !== undefined) {
      this.#restoreInPlace(note, into.writer(note));
      return;
    }
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

  /** The same without a copy of the payload, and with only the arguments it needs. */
  #restoreInPlace({ source, renamed, expiresAtMs }: KeyNote, writer: RespWriter): void {
    const { keyBytes, keyStart, keyEnd, rawStart, rawEnd } = source;
    const version = this.#footer(source) as number;
    const expires = expiresAtMs >= 0;
    writer.raw(expires ? RESTORE_6 : RESTORE_5);
    if (renamed === undefined) writer.range(keyBytes, keyStart, keyEnd);
    else writer.argument(renamed);
    writer.argument(expires ? Math.max(1, expiresAtMs) : "0");
    const length = 1 + rawEnd - rawStart + FOOTER_BYTES;
    const at = writer.reserve(length);
    writer.page[at] = source.type;
    writer.place(source, at + 1);
    sealPayload(writer.page, at, { length, version });
    writer.raw(REPLACE);
    if (expires) writer.raw(ABSTTL);
  }

  #slow(note: KeyNote, into: CommandBatch<LoadNote>): void {
    const { abilities, existing, token, ttlShiftMs } = this.#options;
    const { source, key, expiresAtMs } = note;
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

function stringOf(source: RdbKey): Buffer {
  const pieces: Buffer[] = [];
  for (const part of decodeValue(source)) if (part.type === "string") pieces.push(part.bytes);
  return pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
}
