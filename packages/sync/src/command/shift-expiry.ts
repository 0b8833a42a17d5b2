/**
 * Moves the expiry that a command sets (`ttlShiftMs`). Seconds become milliseconds, so that a shift of any size fits:
 *
 *   EXPIRE k 10            PEXPIRE k 10500            HEXPIRE k 10 ...      HPEXPIRE k 10500 ...
 *   SET k v EXAT 1700      SET k v PXAT 1700500       SETEX k 10 v          PSETEX k 10500 v
 *   RESTORE k 0 payload    unchanged: there is no expiry
 *
 * An expiry before the epoch becomes 1 ms, which has passed too. SET and RESTORE refuse anything smaller.
 */
import { isWord, wordAt } from "./keys.ts";
import { specOf } from "./table.ts";

interface Expiry {
  /** The position of the time. */
  readonly at: number;
  readonly seconds: boolean;
  /** The position of the word that names the unit, and its replacement for milliseconds. */
  readonly unit?: readonly [at: number, word: string];
}

const SECONDS: Readonly<Record<string, string>> = {
  ...{ expire: "PEXPIRE", expireat: "PEXPIREAT", setex: "PSETEX" },
  ...{ hexpire: "HPEXPIRE", hexpireat: "HPEXPIREAT" },
};
const MILLISECONDS = new Set("pexpire pexpireat psetex hpexpire hpexpireat".split(" "));
/** Commands with options: the first position that options can have, and the word that ends them. */
const WITH_OPTIONS: Readonly<Record<string, { readonly from: number; readonly until?: string }>> = {
  set: { from: 3 },
  getex: { from: 2 },
  hsetex: { from: 2, until: "fields" },
  hgetex: { from: 2, until: "fields" },
};
const UNITS: Readonly<Record<string, string>> = { ex: "PX", exat: "PXAT", px: "PX", pxat: "PXAT" };

/** The same command with its expiry moved; the command itself if it sets none. */
export function shiftExpiry(argv: readonly Buffer[], shiftMs: number): readonly Buffer[] {
  if (shiftMs === 0) return argv;
  const expiry = expiryOf(argv);
  const given = expiry && argv[expiry.at]?.toString("latin1");
  if (expiry === undefined || given === undefined || !/^-?\d{1,19}$/.test(given)) return argv;
  const shifted = BigInt(given) * (expiry.seconds ? 1_000n : 1n) + BigInt(shiftMs);
  const words = [...argv];
  words[expiry.at] = Buffer.from(String(shifted < 1n ? 1n : shifted));
  if (expiry.unit !== undefined) words[expiry.unit[0]] = Buffer.from(expiry.unit[1]);
  return words;
}

function expiryOf(argv: readonly Buffer[]): Expiry | undefined {
  const name = specOf(argv)?.name ?? "";
  if (MILLISECONDS.has(name)) return { at: 2, seconds: false };
  if (Object.hasOwn(SECONDS, name)) {
    return { at: 2, seconds: true, unit: [0, SECONDS[name] as string] };
  }
  if (name === "restore" || name === "restore-asking") {
    return String(argv[2]) === "0" ? undefined : { at: 2, seconds: false };
  }
  const options = optionsOf(name, argv);
  if (options === undefined) return undefined;
  for (let at = options.from; at + 1 < options.end; at++) {
    const unit = argv[at]?.toString("latin1").toLowerCase() ?? "";
    if (!Object.hasOwn(UNITS, unit)) continue;
    const word = UNITS[unit] as string;
    return { at: at + 1, seconds: unit.startsWith("e"), unit: [at, word] };
  }
  return undefined;
}

/** The range of a command's options; undefined if it has none. */
function optionsOf(
  name: string,
  argv: readonly Buffer[],
): { from: number; end: number } | undefined {
  if (name === "msetex") {
    const from = 2 + 2 * Number(argv[1]);
    return Number.isSafeInteger(from) ? { from, end: argv.length } : undefined;
  }
  if (!Object.hasOwn(WITH_OPTIONS, name)) return undefined;
  const { from, until } = WITH_OPTIONS[name] as { from: number; until?: string };
  const end = until === undefined ? argv.length : wordAt(argv, until, from);
  // SET k v IFEQ ex: the word is a value.
  const given = name === "set" ? argv.findIndex((word, at) => at >= from && isCondition(word)) : -1;
  return { from: given < 0 ? from : given + 2, end: end < 0 ? argv.length : end };
}

const isCondition = (word: Buffer) =>
  ["ifeq", "ifne", "ifdeq", "ifdne"].some((each) => isWord(word, each));
