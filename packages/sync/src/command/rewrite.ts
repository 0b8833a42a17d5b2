/**
 * Commands of a replication stream, rewritten for a target that is older than the source. A rewritten
 * command may become several; the caller applies them in one transaction.
 *
 *   SET k v PXAT t            < 6.2    SET k v, PEXPIREAT k t
 *   SET k v KEEPTTL           < 6.0    a script that keeps the expiry
 *   LPOP k n, RPOP k n        < 6.2    LTRIM
 *   LMOVE a b RIGHT LEFT      < 6.2    RPOPLPUSH a b
 *   UNLINK                    < 4.0    DEL
 *   HSET with several fields  < 4.0    HMSET
 *   HSETEX ... PXAT t         < 8.0    HSET, HPEXPIREAT
 *   XGROUP, XSETID counters   < 7.0    without the counters
 *   XGROUP CREATECONSUMER     < 6.2    nothing: the consumer appears with its first claim
 *   FLUSHALL SYNC             < 6.2    FLUSHALL
 *   RESTORE ... ABSTTL        < 5.0    a relative expiry, without IDLETIME and FREQ
 *   XADD k NOMKSTREAM         < 6.2    XADD k: the stream was there
 *
 * Two kinds are rewritten for every target, because the stream has them in a form that only replicas accept:
 *
 *   XADD, XTRIM ... = n LIMIT m        without LIMIT: the source has made n exact, and clients may not combine both
 *   PEXPIREAT k t NX|XX|GT|LT          without the condition, which was true. At the target it may not be: while a
 *                                      snapshot is loaded, expiries are held back
 *
 * The result is undefined for commands that no older command can express (ZADD GT, COPY, HPEXPIREAT, ...). The
 * caller counts them as errors.
 */
import type { Argument } from "../resp/writer.ts";
import { isWord, wordAt } from "./keys.ts";
import { specOf } from "./table.ts";
import { type Feature, supports, type TargetServer } from "./target.ts";

/** The equivalent commands for the target; undefined if there are none. */
export type Rewritten = readonly (readonly Argument[])[] | undefined;

type Rewriter = (argv: readonly Buffer[], target: TargetServer) => Rewritten;

/** Sets a value and keeps the expiry, for servers whose SET has no KEEPTTL. */
const KEEP_TTL =
  "local ttl = redis.call('PTTL', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1]) " +
  "if ttl > 0 then redis.call('PEXPIRE', KEYS[1], ttl) end return redis.status_reply('OK')";

/** `nowMs` is the target's time; only a RESTORE before Redis 5.0 needs it. */
export function rewriteFor(
  target: TargetServer,
  argv: readonly Buffer[],
  nowMs: () => number,
): Rewritten {
  const name = specOf(argv)?.name;
  if (name === undefined) return [argv];
  if (name === "restore") return rewriteRestore(argv, target, nowMs);
  const needed = NEEDED[name];
  if (needed !== undefined) return supports(target, needed) ? [argv] : undefined;
  return Object.hasOwn(REWRITERS, name) ? REWRITERS[name]?.(argv, target) : [argv];
}

/** Whether a command, by its name in upper case, is rewritten for every target. */
export function isRewrittenAlways(name: string, argv: readonly Buffer[]): boolean {
  if (name === "XADD" || name === "XTRIM") return trimOf(argv).limit > 0;
  return argv.length > 3 && CONDITIONAL.has(name);
}

const CONDITIONAL: ReadonlySet<string> = new Set(["PEXPIREAT", "EXPIREAT", "PEXPIRE", "EXPIRE"]);

/** Commands that older servers do not have, and that have no replacement. */
const NEEDED: Readonly<Record<string, Feature>> = {
  copy: "commands62",
  zrangestore: "commands62",
  zdiffstore: "commands62",
  geosearchstore: "commands62",
  swapdb: "swapdb",
  function: "functions",
  xdel: "streams",
  xack: "streams",
  xclaim: "streams",
  hpexpireat: "fieldExpiry",
  hexpireat: "fieldExpiry",
  hpersist: "fieldExpiry",
};

const REWRITERS: Readonly<Record<string, Rewriter>> = {
  set: rewriteSet,
  lpop: rewritePop,
  rpop: rewritePop,
  lmove: (argv, target) => {
    if (supports(target, "commands62")) return [argv];
    const [, from, to, out, into] = argv;
    const same = from !== undefined && to !== undefined && isWord(out, "right");
    return same && isWord(into, "left") ? [["RPOPLPUSH", from, to]] : undefined;
  },
  unlink: (argv, target) => [supports(target, "unlink") ? argv : ["DEL", ...argv.slice(1)]],
  hset: (argv, target) => [
    argv.length <= 4 || supports(target, "multiPairHset") ? argv : ["HMSET", ...argv.slice(1)],
  ],
  hsetex: rewriteHsetex,
  zadd: (argv, target) => {
    if (supports(target, "commands62")) return [argv];
    return zaddFlags(argv).some((flag) => flag === "gt" || flag === "lt") ? undefined : [argv];
  },
  xadd: rewriteTrim,
  xtrim: rewriteTrim,
  pexpireat: (argv) => [argv.slice(0, 3)],
  expireat: (argv) => [argv.slice(0, 3)],
  pexpire: (argv) => [argv.slice(0, 3)],
  expire: (argv) => [argv.slice(0, 3)],
  xgroup: rewriteXgroup,
  xsetid: (argv, target) => {
    if (!supports(target, "streams")) return undefined;
    return [supports(target, "streamCounters") ? argv : argv.slice(0, 3)];
  },
  flushall: rewriteFlush,
  flushdb: rewriteFlush,
};

const ZADD_FLAGS: ReadonlySet<string> = new Set(["nx", "xx", "gt", "lt", "ch", "incr"]);

/** The words between the key of a ZADD and its first score. */
function zaddFlags(argv: readonly Buffer[]): string[] {
  const flags: string[] = [];
  for (const word of argv.slice(2)) {
    const flag = word.toString("latin1").toLowerCase();
    if (!ZADD_FLAGS.has(flag)) break;
    flags.push(flag);
  }
  return flags;
}

function rewriteSet(argv: readonly Buffer[], target: TargetServer): Rewritten {
  const [name, key, value] = argv;
  if (argv.length === 3 || key === undefined || value === undefined) return [argv];
  const keep = wordAt(argv, "keepttl", 3);
  if (keep > 0 && !supports(target, "keepTtl")) return [["EVAL", KEEP_TTL, 1, key, value]];
  const at = wordAt(argv, "pxat", 3);
  if (at < 0 || supports(target, "setPxat")) return [argv];
  const rest = argv.slice(3).filter((_, i) => i + 3 !== at && i + 4 !== at);
  const expiry = argv[at + 1];
  if (expiry === undefined || rest.length > 1) return undefined;
  return [
    [name as Buffer, key, value],
    ["PEXPIREAT", key, expiry],
  ];
}

function rewritePop(argv: readonly Buffer[], target: TargetServer): Rewritten {
  const [name, key, count] = argv;
  if (count === undefined || key === undefined || supports(target, "popCount")) return [argv];
  const popped = Number(count.toString("latin1"));
  if (!Number.isSafeInteger(popped)) return [argv];
  return isWord(name, "lpop") ? [["LTRIM", key, popped, -1]] : [["LTRIM", key, 0, -(popped + 1)]];
}

/** HSETEX k [FNX | FXX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL] FIELDS n f v ... */
function rewriteHsetex(argv: readonly Buffer[], target: TargetServer): Rewritten {
  if (supports(target, "hsetex")) return [argv];
  const key = argv[1] as Buffer;
  const fields = wordAt(argv, "fields", 2);
  if (fields < 0) return undefined;
  const pairs = argv.slice(fields + 2);
  const set: Argument[] = [supports(target, "multiPairHset") ? "HSET" : "HMSET", key, ...pairs];
  const options = argv.slice(2, fields);
  if (options.length === 0) return [set];
  if (options.length !== 2 || !isWord(options[0], "pxat")) return undefined;
  if (!supports(target, "fieldExpiry")) return undefined;
  const names = pairs.filter((_, i) => i % 2 === 0);
  return [set, ["HPEXPIREAT", key, options[1] as Buffer, "FIELDS", names.length, ...names]];
}

/** Options of XADD before the id, and of XTRIM, by the number of words that belong to each. */
const TRIM_OPTIONS: Readonly<Record<string, number>> = {
  ...{ nomkstream: 1, keepref: 1, delref: 1, acked: 1, limit: 2, idmpauto: 2, idmp: 3 },
  ...{ maxlen: 2, minid: 2 },
};

/** The positions of the options that not every server accepts; -1 if absent. */
function trimOf(argv: readonly Buffer[]): { limit: number; nomkstream: number; minid: number } {
  const found: Record<string, number> = {};
  for (let at = 2; at < argv.length; ) {
    const word = (argv[at] as Buffer).toString("latin1").toLowerCase();
    const words = Object.hasOwn(TRIM_OPTIONS, word) ? (TRIM_OPTIONS[word] as number) : 0;
    if (words === 0) break;
    found[word] = at;
    const trims = word === "maxlen" || word === "minid";
    const sign = trims ? String(argv[at + 1]) : "";
    if (sign === "~") found.about = at;
    at += words + (sign === "~" || sign === "=" ? 1 : 0);
  }
  const { limit = -1, nomkstream = -1, minid = -1, about } = found;
  return { limit: about === undefined ? limit : -1, nomkstream, minid };
}

function rewriteTrim(argv: readonly Buffer[], target: TargetServer): Rewritten {
  if (!supports(target, "streams")) return undefined;
  const { limit, nomkstream, minid } = trimOf(argv);
  const old = !supports(target, "commands62");
  if (old && minid > 0) return undefined;
  const dropped = new Set([...(limit > 0 ? [limit, limit + 1] : []), ...(old ? [nomkstream] : [])]);
  return [argv.filter((_, at) => !dropped.has(at))];
}

function rewriteXgroup(argv: readonly Buffer[], target: TargetServer): Rewritten {
  if (!supports(target, "streams")) return undefined;
  if (isWord(argv[1], "createconsumer")) return supports(target, "createConsumer") ? [argv] : [];
  const counter = wordAt(argv, "entriesread", 4);
  if (counter < 0 || supports(target, "streamCounters")) return [argv];
  return [[...argv.slice(0, counter), ...argv.slice(counter + 2)]];
}

function rewriteFlush(argv: readonly Buffer[], target: TargetServer): Rewritten {
  if (argv.length === 1) return [argv];
  if (isWord(argv[1], "sync") && !supports(target, "flushSync")) return [argv.slice(0, 1)];
  return supports(target, "unlink") ? [argv] : [argv.slice(0, 1)];
}

/** RESTORE k ttl payload [REPLACE] [ABSTTL] [IDLETIME s] [FREQ n] */
function rewriteRestore(
  argv: readonly Buffer[],
  target: TargetServer,
  nowMs: () => number,
): Rewritten {
  const [name, key, ttl, payload] = argv;
  if (key === undefined || ttl === undefined || payload === undefined) return [argv];
  if (supports(target, "absoluteTtl")) return [argv];
  const given = Number(ttl.toString("latin1"));
  const absolute = wordAt(argv, "absttl", 4) > 0;
  const replace = wordAt(argv, "replace", 4) > 0;
  const relative = absolute && given > 0 ? Math.max(1, given - nowMs()) : given;
  const restore: Argument[] = [name as Buffer, key, relative, payload];
  if (replace && supports(target, "replace")) restore.push("REPLACE");
  return replace && !supports(target, "replace") ? [["DEL", key], restore] : [restore];
}
