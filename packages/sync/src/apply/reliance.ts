/**
 * Finds the keys that a batch relies on: the source had them when it ran the command, so the target needs them too.
 *
 *   SET k v, DEL k, RESTORE k      the previous value of k does not matter
 *   INCR k, HSET k, PEXPIREAT k    k is as the previous batch left it, unless the target has expired it
 *
 * A key that such a command creates looks the same as one that has vanished. vanished-keys.ts handles both.
 */
import { isWord, keysOf, wordAt } from "../command/keys.ts";
import { specOf } from "../command/table.ts";
import type { StreamNote } from "./applier.ts";

/** A key of the target. */
export interface Place {
  readonly db: number;
  readonly key: Buffer;
}

/** What a command of a batch does with its keys. */
export interface Touch {
  /** The command. */
  readonly note: StreamNote;
  readonly places: readonly Place[];
  /** Whether the previous values matter. */
  readonly relies: boolean;
  /** The expiry that it sets, in ms; -1 if none. */
  readonly expiresAtMs: number;
  /** Databases that it exchanges. */
  readonly swaps?: readonly [number, number];
}

const OVERWRITING = new Set(
  "mset setex psetex getset restore restore-asking del unlink getdel delex delifeq".split(" "),
);
const CONDITIONS = ["nx", "xx", "keepttl", "ifeq", "ifne", "ifdeq", "ifdne"];
const ABSOLUTE_MS = ["pxat"];
const ABSOLUTE_S = ["exat"];

/** The effects of the commands of a batch, in order. Unknown commands are left out. */
export function touchesOf(notes: readonly (StreamNote | undefined)[]): Touch[] {
  const touches: Touch[] = [];
  for (const note of notes) {
    const touch = note === undefined || note.own === true ? undefined : touchOf(note);
    if (touch !== undefined) touches.push(touch);
  }
  return touches;
}

function touchOf(note: StreamNote): Touch | undefined {
  const { argv, db, inserted = false } = note;
  const name = specOf(argv)?.name;
  if (name === undefined) return undefined;
  if (name === "swapdb") {
    const swaps = [Number(argv[1]), Number(argv[2])] as const;
    return { note, places: [], relies: false, expiresAtMs: -1, swaps };
  }
  const positions = keysOf(argv);
  if (positions === undefined || positions.length === 0) return undefined;
  const places = positions.map((at) => ({ db, key: argv[at] as Buffer }));
  const other = otherDb(name, argv);
  if (other !== undefined) places.push(...places.map(({ key }) => ({ db: other, key })));
  return {
    ...{ note, places },
    relies: !inserted && !overwrites(name, argv),
    expiresAtMs: expiryOf(name, argv),
  };
}

function overwrites(name: string, argv: readonly Buffer[]): boolean {
  if (name === "set") return CONDITIONS.every((word) => wordAt(argv, word, 3) < 0);
  return OVERWRITING.has(name);
}

/** MOVE k db, COPY from to DB db. */
function otherDb(name: string, argv: readonly Buffer[]): number | undefined {
  if (name === "move") return Number(argv[2]);
  if (name !== "copy") return undefined;
  const at = wordAt(argv, "db", 3);
  return at < 0 ? undefined : Number(argv[at + 1]);
}

/** A relative expiry begins when the target receives it, so it has never passed. */
function expiryOf(name: string, argv: readonly Buffer[]): number {
  if (name === "pexpireat") return Number(argv[2]);
  if (name === "expireat") return 1_000 * Number(argv[2]);
  if (name === "restore" || name === "restore-asking") {
    return wordAt(argv, "absttl", 4) < 0 ? -1 : Number(argv[2]) || -1;
  }
  if (name !== "set" && name !== "getex" && name !== "msetex") return -1;
  for (let at = 2; at + 1 < argv.length; at++) {
    if (ABSOLUTE_MS.some((word) => isWord(argv[at], word))) return Number(argv[at + 1]);
    if (ABSOLUTE_S.some((word) => isWord(argv[at], word))) return 1_000 * Number(argv[at + 1]);
  }
  return -1;
}

/** A string that names a key of a database. */
export function nameOf({ db, key }: Place): string {
  return `${db}:${key.toString("latin1")}`;
}

/** The key of a name. */
export function placeOf(name: string): Place {
  const colon = name.indexOf(":");
  return { db: Number(name.slice(0, colon)), key: Buffer.from(name.slice(colon + 1), "latin1") };
}

/** The remaining lifetimes of keys at the target, in ms; -1 if a key has no expiry, -2 if it does not exist. */
export type Lifetimes = ReadonlyMap<string, number>;

/** Keys that are looked up before the batch is applied. */
export function reliedOn(touches: readonly Touch[]): Map<string, Place> {
  const found = new Map<string, Place>();
  for (const { places, relies } of touches) {
    if (relies) for (const place of places) found.set(nameOf(place), place);
  }
  return found;
}

/** Keys that the target may not have when the batch relies on them, besides those known to be wrong. */
export function doubtful(
  touches: readonly Touch[],
  at: {
    readonly lifetimes: Lifetimes;
    readonly known: { has(name: string): boolean; keys(): Iterable<string> };
    /** Keys that are wrong until their value from the source is written, in this batch or the next. */
    readonly mending?: Iterable<string>;
    readonly nowMs: number;
    readonly marginMs: number;
  },
): Set<string> {
  const { lifetimes, known, nowMs, marginMs } = at;
  const found = new Set<string>();
  const mending = new Set(at.mending);
  /** Keys that the batch itself has written, and whether they stay. */
  const stays = new Map<string, boolean>();
  const isDoubtful = (name: string) => {
    if (found.has(name) || known.has(name) || mending.has(name)) return true;
    const staying = stays.get(name);
    if (staying !== undefined) return !staying;
    const lifetime = lifetimes.get(name) ?? -1;
    return lifetime === -2 || (lifetime >= 0 && lifetime < marginMs);
  };
  for (const { places, relies, expiresAtMs, swaps } of touches) {
    if (swaps !== undefined) {
      for (const name of [...found, ...mending, ...known.keys()]) exchange(name, swaps, found);
      stays.clear();
      continue;
    }
    const names = places.map(nameOf);
    if (relies && names.some(isDoubtful)) for (const name of names) found.add(name);
    if (!relies) {
      for (const name of names) {
        found.delete(name);
        mending.delete(name);
      }
    }
    const short = expiresAtMs >= 0 && expiresAtMs < nowMs + marginMs;
    if (!relies || short) for (const name of names) stays.set(name, !short);
  }
  for (const name of [...found]) if (known.has(name) || mending.has(name)) found.delete(name);
  return found;
}

function exchange(name: string, [a, b]: readonly [number, number], found: Set<string>): void {
  const { db, key } = placeOf(name);
  if (db === a || db === b) found.add(nameOf({ db: db === a ? b : a, key }));
}
