/**
 * Translates a command of the source into commands of the target. Each step may drop the command, change it, or
 * refuse it:
 *
 *   noise of servers -> policy (FLUSHALL, SWAPDB, FUNCTION, PUBLISH) -> database map -> filter -> rename
 *      -> shift of expiries -> rewriting for older targets -> transform
 *
 * Without options, and for a target that is new enough, the bytes of a command are passed on unchanged.
 */
import { keysOf, readsByPattern } from "../command/keys.ts";
import { pickKeys, renameKeys } from "../command/pick.ts";
import { isRewrittenAlways, rewriteFor } from "../command/rewrite.ts";
import { shiftExpiry } from "../command/shift-expiry.ts";
import { supports } from "../command/target.ts";
import { requireDatabase } from "../database-range.ts";
import { CommandRefusedError } from "../errors.ts";
import { isOwnKey, isTaskKey } from "../keys.ts";
import { HeldWriter } from "../load/ttl-fence.ts";
import type { Mapping } from "../mapping.ts";
import type { WireCommand } from "../resp/command-reader.ts";
import type { Argument } from "../resp/writer.ts";
import type { Abilities } from "../sink/abilities.ts";
import type { Transaction } from "../sink/transaction.ts";
import { type Transform, transformed } from "../transform.ts";
import type { StreamNote, Translate } from "./applier.ts";
import { restoreFor } from "./restore-for.ts";
import type { Unit } from "./unit-reader.ts";

/** How commands that affect more than keys are handled. */
export interface Policies {
  readonly flush: "apply" | "drop" | "stop";
  readonly swapDb: "apply" | "drop" | "stop";
  readonly functions: "apply" | "drop" | "stop";
  readonly publish: "apply" | "drop" | "stop";
}

/** How commands are translated. */
export interface TranslatorOptions {
  readonly policies: Policies;
  readonly mapping: Mapping;
  readonly abilities: Abilities;
  readonly transform: Transform | undefined;
  /** Added to every expiry. */
  readonly ttlShiftMs: number;
  /** Leave out writes that another task made at the source. */
  readonly twoWay: boolean;
  /** Keys of the task that must stay in database 0 when SWAPDB exchanges it. */
  readonly ownKeys: readonly string[];
  /** The list of expiries that are held back. */
  readonly expiriesKey: string;
  /** Called for a command that cannot be sent to the target; may throw. */
  onUnwritable(argv: readonly Buffer[], db: number, reason: string): void;
  /** Called for each command that is left out. */
  onFiltered(): void;
}

/** Commands that servers and providers send to replicas for their own purposes. */
const NOISE = new Set(["PING", "REPLCONF", "OPINFO", "CLUSTER", "SELECT"]);

/** Commands that no server sends to its replicas. An untrusted file could use them to take over the target. */
const ADMINISTRATION = new Set(
  `ACL AUTH BGREWRITEAOF BGSAVE CLIENT CONFIG DEBUG FAILOVER HELLO MIGRATE MODULE MONITOR PSYNC REPLICAOF RESET SAVE
   SHUTDOWN SLAVEOF SYNC`.split(/\s+/),
);

const POLICY: Readonly<Record<string, keyof Policies>> = {
  FLUSHALL: "flush",
  FLUSHDB: "flush",
  SWAPDB: "swapDb",
  FUNCTION: "functions",
  PUBLISH: "publish",
  SPUBLISH: "publish",
};
const CARRIES_EXPIRY = new Set(["RENAME", "RENAMENX", "COPY", "MOVE"]);
const RESTORES = new Set(["RESTORE", "RESTORE-ASKING"]);
const NAMES = new Map<string, string>();

/** Translates commands of the source into commands of the target. */
export class Translator implements Translate {
  /** While expiries are held back, keys that inherit an expiry are recorded. */
  fencing = true;
  readonly #options: TranslatorOptions;
  readonly #plain: boolean;

  constructor(options: TranslatorOptions) {
    this.#options = options;
    const { mapping, abilities, transform, ttlShiftMs } = options;
    const newest = supports(abilities, "hsetex") && supports(abilities, "fieldExpiry");
    this.#plain = mapping.identity && transform === undefined && ttlShiftMs === 0 && newest;
  }

  /** With two-way tasks: whether a client wrote the unit, and not the reverse task. */
  unit(unit: Unit): boolean {
    if (!this.#options.twoWay) return true;
    const ours = unit.commands.some(({ argv }) => argv[1] !== undefined && isOwnKey(argv[1]));
    if (ours) this.#options.onFiltered();
    return !ours;
  }

  command(command: WireCommand, db: number, into: Transaction<StreamNote>): void {
    const { argv } = command;
    const name = nameOf(argv[0] as Buffer);
    if (NOISE.has(name)) return;
    if (ADMINISTRATION.has(name)) {
      this.#options.onUnwritable(argv, db, "it administers a server, and is not data");
      return;
    }
    const policy = POLICY[name];
    if (policy !== undefined) {
      this.#special(policy, name, { argv, db, into });
      return;
    }
    if (argv[1] !== undefined && isTaskKey(argv[1])) return;
    if (this.#plain && !RESTORES.has(name) && !isRewrittenAlways(name, argv)) {
      this.#select(db, into);
      into.raw(command.raw, { argv, db });
    } else this.#mapped(name, { argv, db, into });
    if (this.fencing && CARRIES_EXPIRY.has(name)) this.#alias(name, { argv, db, into });
  }

  #select(db: number, into: Transaction<StreamNote>): void {
    requireDatabase(db, this.#options.abilities.databases);
    into.select(db);
  }

  #mapped(name: string, write: Write): void {
    const { mapping, onFiltered, onUnwritable } = this.#options;
    const db = mapping.db(write.db);
    const other = otherDb(name, write.argv);
    const toDb = other === undefined ? db : mapping.db(other.db);
    if (db === undefined) {
      if (toDb === undefined) onFiltered();
      else onUnwritable(write.argv, toDb, "its key is in a database that is not copied");
      return;
    }
    const byName = mapping.command(name);
    if (!byName && mapping.combine === "and") {
      onFiltered();
      return;
    }
    const kept = byName && mapping.combine === "or" ? write.argv : this.#picked(write.argv);
    if (kept === undefined) {
      onFiltered();
      return;
    }
    if (kept === "unknown") {
      onUnwritable(write.argv, db, "its keys are not known, so they cannot be filtered");
      return;
    }
    if (kept === "mixed") {
      onUnwritable(write.argv, db, "some of its keys are filtered out, and it cannot be divided");
      return;
    }
    if ((mapping.renames || !mapping.keys.isOpen) && readsByPattern(kept)) {
      onUnwritable(kept, db, "it reads keys by a pattern, which may be filtered out or renamed");
      return;
    }
    const argv = mapping.renames ? renameKeys(kept, (key) => mapping.key(key)) : kept;
    if (argv === undefined) {
      onUnwritable(kept, db, "its keys are not known, so they cannot be renamed");
      return;
    }
    const { into } = write;
    if (other === undefined || toDb === other.db) this.#rewritten(name, { argv, db, into });
    else this.#between(name, { argv, db, into }, { at: other.at, db: toDb });
  }

  /** MOVE or COPY to a database that has another number at the target, or is not copied. */
  #between(
    name: string,
    { argv, db, into }: Write,
    to: { readonly at: number; readonly db: number | undefined },
  ): void {
    const moves = name === "MOVE";
    if (to.db === undefined && moves) {
      this.#rewritten("DEL", { argv: [DEL, argv[1] as Buffer], db, into });
    } else if (to.db === undefined || (moves && to.db === db)) this.#options.onFiltered();
    else {
      const mapped = argv.map((word, at) => (at === to.at ? toBuffer(String(to.db)) : word));
      this.#rewritten(name, { argv: mapped, db, into });
    }
  }

  #picked(argv: readonly Buffer[]): ReturnType<typeof pickKeys> {
    const { keys } = this.#options.mapping;
    return keys.isOpen ? argv : pickKeys(argv, (key) => keys.accepts(key));
  }

  #rewritten(name: string, write: Write): void {
    const { abilities, onUnwritable, ttlShiftMs } = this.#options;
    const { db, into } = write;
    const argv = shiftExpiry(write.argv, ttlShiftMs);
    const restores = RESTORES.has(name);
    const commands = restores
      ? restoreFor(abilities, name === "RESTORE" ? argv : replacing(argv), ttlShiftMs)
      : rewriteFor(abilities, argv, () => Date.now());
    if (commands === undefined) {
      onUnwritable(argv, db, "the target has no command that does the same");
      return;
    }
    for (const words of commands) this.#write(words.map(toBuffer), db, into);
  }

  #write(argv: readonly Buffer[], db: number, into: Transaction<StreamNote>): void {
    const { transform, onFiltered } = this.#options;
    let commands: readonly (readonly Buffer[])[] = [argv];
    if (transform !== undefined) {
      const command = nameOf(argv[0] as Buffer);
      const keys = (keysOf(argv) ?? []).map((at) => argv[at] as Buffer);
      const result = transformed(transform, { command, argv, keys, db, phase: "stream" });
      if (result === false) {
        onFiltered();
        return;
      }
      if (result !== true) commands = result.map((words) => words.map(toBuffer));
    }
    this.#select(db, into);
    for (const words of commands) into.command(words, { argv: words, db });
  }

  #special(policy: keyof Policies, name: string, write: Write): void {
    const { argv, db, into } = write;
    if (policy === "publish" && argv[1]?.toString() === "__sentinel__:hello") return;
    const choice = this.#options.policies[policy];
    if (choice === "drop" || !this.#options.mapping.command(name)) {
      this.#options.onFiltered();
      return;
    }
    if (choice === "stop") throw refused(name, `the option ${policy} is "stop"`);
    if (policy === "flush") {
      this.#flush(name, write);
      return;
    }
    if (policy === "swapDb") {
      this.#swap(write);
      return;
    }
    if (policy === "functions" && !this.#options.abilities.functions) {
      this.#options.onUnwritable(argv, db, "the target has no functions");
      return;
    }
    into.select(0); // messages and functions belong to no database
    into.command(argv, { argv, db: 0 });
  }

  /** Only the databases of the task are emptied. */
  #flush(name: string, { argv, db, into }: Write): void {
    const { mapping, abilities } = this.#options;
    if (mapping.partial) throw refused(name, "only some keys are copied, so it cannot be applied");
    const flushed = name === "FLUSHALL" ? mapping.dbs : [db];
    const words = (rewriteFor(abilities, argv, () => Date.now()) ?? [argv])[0] ?? argv;
    if (flushed === undefined) {
      const all = words.map(toBuffer);
      into.select(0);
      into.command(all, { argv: all, db: 0 });
      return;
    }
    for (const source of flushed) {
      const target = mapping.db(source);
      if (target === undefined) continue;
      const flush = [FLUSHDB, ...words.slice(1).map(toBuffer)];
      // Expiries of other databases are held back in database 0.
      const spare = this.fencing && target === 0 && abilities.databases > 1;
      if (spare) this.#moveExpiries(0, 1, into);
      this.#select(target, into);
      into.command(flush, { argv: flush, db: target });
      if (spare) this.#moveExpiries(1, 0, into);
    }
  }

  /** A swap moves the task's own keys out of database 0; the transaction writes the checkpoint there again. */
  #swap({ argv, into }: Write): void {
    const { mapping, ownKeys, abilities } = this.#options;
    if (mapping.dbs !== undefined || mapping.partial) {
      throw refused("SWAPDB", "databases are mapped or filtered, so it cannot be applied");
    }
    const [a, b] = [Number(argv[1]), Number(argv[2])];
    for (const db of [a, b]) requireDatabase(db, abilities.databases);
    into.select(0);
    into.command(argv, { argv, db: 0 });
    if (a === b || ownKeys.length === 0) return;
    if (a === 0 || b === 0) {
      const other = a === 0 ? b : a;
      const del = ["DEL", ...ownKeys].map(toBuffer);
      into.select(other);
      into.command(del, { argv: del, db: other });
      this.#moveExpiries(other, 0, into);
    }
    if (!this.fencing) return;
    const held = new HeldWriter(0);
    held.swap({ db: a, toDb: b });
    this.#pushHeld(held, into);
  }

  #moveExpiries(from: number, to: number, into: Transaction<StreamNote>): void {
    const argv = ["MOVE", this.#options.expiriesKey, to].map(toBuffer);
    into.select(from);
    into.command(argv, { argv, db: from, own: true });
  }

  #pushHeld(held: HeldWriter, into: Transaction<StreamNote>): void {
    const push = ["RPUSH", this.#options.expiriesKey, held.take()].map(toBuffer);
    into.select(0);
    into.command(push, { argv: push, db: 0, own: true });
  }

  #alias(name: string, { argv, db, into }: Write): void {
    const { mapping } = this.#options;
    const [, from, to] = argv;
    if (from === undefined || to === undefined) return;
    const place = mapping.db(db) ?? db;
    const given = otherDb(name, argv)?.db;
    const toDb = given === undefined ? place : mapping.db(given);
    if (toDb === undefined) return;
    const held = new HeldWriter(0);
    const toKey = mapping.key(name === "MOVE" ? from : to);
    held.alias({ db: place, key: mapping.key(from), toDb, toKey });
    this.#pushHeld(held, into);
  }
}

/** A command that is being translated. */
interface Write {
  readonly argv: readonly Buffer[];
  readonly db: number;
  readonly into: Transaction<StreamNote>;
}

/** The database that MOVE and COPY name, and its position; undefined if the command names none. */
function otherDb(name: string, argv: readonly Buffer[]): { at: number; db: number } | undefined {
  if (name === "MOVE") return { at: 2, db: Number(argv[2]) };
  if (name !== "COPY") return undefined;
  const option = argv.findIndex((word, at) => at > 2 && nameOf(word) === "DB");
  return option < 0 ? undefined : { at: option + 1, db: Number(argv[option + 1]) };
}

/** A key that moved within a source cluster may already be at the target, from its old master. */
function replacing(argv: readonly Buffer[]): readonly Buffer[] {
  const replaces = argv.some((word, at) => at > 3 && nameOf(word) === "REPLACE");
  return replaces ? argv : [...argv, Buffer.from("REPLACE")];
}

const FLUSHDB = Buffer.from("FLUSHDB");
const DEL = Buffer.from("DEL");

function toBuffer(word: Argument): Buffer {
  return Buffer.isBuffer(word) ? word : Buffer.from(String(word));
}

/** The name in upper case. Each spelling is converted once. */
function nameOf(bytes: Buffer): string {
  const spelling = bytes.toString("latin1");
  const known = NAMES.get(spelling);
  if (known !== undefined) return known;
  const name = spelling.toUpperCase();
  if (NAMES.size < 1_000) NAMES.set(spelling, name);
  return name;
}

function refused(name: string, reason: string): CommandRefusedError {
  const advice = "Change the option and start again; the task resumes before this command";
  return new CommandRefusedError(name, `${reason}. ${advice}`);
}
