/** Finds the keys among the arguments of a command. */
import { type KeyPlaces, specOf } from "./table.ts";

/** The positions of all keys in `argv`, ascending; undefined if the command is unknown or malformed. */
export function keysOf(argv: readonly Buffer[]): number[] | undefined {
  const spec = specOf(argv);
  if (spec === undefined) return undefined;
  return positions(spec.keys, argv);
}

function positions(places: KeyPlaces, argv: readonly Buffer[]): number[] | undefined {
  switch (places.kind) {
    case "none":
      return [];
    case "range":
      return rangeOf(places, argv.length);
    case "numkeys":
      return counted(places, argv);
    case "streams":
      return afterStreams(argv);
    case "store":
      return stored(argv);
    case "migrate":
      return migrated(argv);
  }
}

function rangeOf(
  { first, last, step }: Extract<KeyPlaces, { kind: "range" }>,
  length: number,
): number[] | undefined {
  const end = last < 0 ? length + last : last;
  if (end >= length || first >= length) return undefined;
  const found: number[] = [];
  for (let at = first; at <= end; at += step) found.push(at);
  return found;
}

function counted(
  { at, also, step = 1 }: Extract<KeyPlaces, { kind: "numkeys" }>,
  argv: readonly Buffer[],
): number[] | undefined {
  const count = Number(argv[at]?.toString("latin1") || Number.NaN);
  if (!Number.isInteger(count) || count < 0 || at + count * step >= argv.length) return undefined;
  const found = also === undefined ? [] : [also];
  for (let i = 0; i < count; i++) found.push(at + 1 + i * step);
  return found;
}

/** XREADGROUP ... STREAMS k1 k2 id1 id2: the first half of the words after STREAMS. */
function afterStreams(argv: readonly Buffer[]): number[] | undefined {
  const word = wordAt(argv, "streams", 1);
  const rest = argv.length - word - 1;
  if (word < 0 || rest === 0 || rest % 2 !== 0) return undefined;
  return Array.from({ length: rest / 2 }, (_, i) => word + 1 + i);
}

/** SORT k ... STORE d; GEORADIUS k ... STORE d or STOREDIST d: the last one counts. */
function stored(argv: readonly Buffer[]): number[] | undefined {
  if (argv.length < 2) return undefined;
  let destination = -1;
  for (let at = 2; at + 1 < argv.length; at++) {
    if (isWord(argv[at], "store") || isWord(argv[at], "storedist")) destination = at + 1;
  }
  return destination < 0 ? [1] : [1, destination];
}

/** MIGRATE host port k ..., or MIGRATE host port "" ... KEYS k1 k2. */
function migrated(argv: readonly Buffer[]): number[] | undefined {
  if (argv.length < 6) return undefined;
  if (argv[3]?.length) return [3];
  const word = wordAt(argv, "keys", 6);
  if (word < 0) return undefined;
  return Array.from({ length: argv.length - word - 1 }, (_, i) => word + 1 + i);
}

/** The position of a word at or after `from`, in any case; -1 if it is not found. */
export function wordAt(argv: readonly Buffer[], word: string, from: number): number {
  for (let at = from; at < argv.length; at++) if (isWord(argv[at], word)) return at;
  return -1;
}

/** Whether an argument is a word, in any case. */
export function isWord(argument: Buffer | undefined, word: string): boolean {
  return (
    argument !== undefined &&
    argument.length === word.length &&
    argument.toString("latin1").toLowerCase() === word
  );
}

/** Whether SORT reads keys that it does not name: SORT k BY w_* GET v_*->f STORE d. */
export function readsByPattern(argv: readonly Buffer[]): boolean {
  if (specOf(argv)?.name !== "sort") return false;
  return argv.some(
    (word, at) =>
      at > 2 && word.includes("*") && (isWord(argv[at - 1], "by") || isWord(argv[at - 1], "get")),
  );
}
