/**
 * The commands that change data, and the positions of their keys. A command that is not listed is not treated as a
 * write. The stream of a server with modules may have other commands; an option decides what happens with them.
 *
 *   first, last, step      positions as in COMMAND INFO; a negative last counts from the end
 *   numkeys                the position of the number of keys that follow, one every
 *                          `step`; `also` is one more key
 */

/** The positions of a command's keys. */
export type KeyPlaces =
  | { readonly kind: "none" }
  | { readonly kind: "range"; readonly first: number; readonly last: number; readonly step: number }
  | {
      readonly kind: "numkeys";
      readonly at: number;
      readonly also?: number;
      readonly step?: number;
    }
  | { readonly kind: "streams" }
  | { readonly kind: "store" }
  | { readonly kind: "migrate" };

/** How a command with several keys may be divided for a cluster. */
export type Splitting = "each" | "pairs" | "never";

/** The properties of a command. */
export interface CommandSpec {
  readonly name: string;
  readonly keys: KeyPlaces;
  /**
   * Whether one command per key (`each`) or per key and value (`pairs`) has the same effect. With `never` the
   * keys depend on each other.
   */
  readonly splitting: Splitting;
  /** Whether it changes data, and not only functions, scripts or the connection. */
  readonly data: boolean;
}

const range = (first: number, last: number, step: number): KeyPlaces => ({
  kind: "range",
  first,
  last,
  step,
});

const ONE = range(1, 1, 1);

const GROUPS: readonly (readonly [KeyPlaces, string])[] = [
  [
    ONE,
    `append bitfield decr decrby expire expireat geoadd getdel getex getset hdel hexpire hexpireat hgetdel
     hgetex hincrby hincrbyfloat hmset hpersist hpexpire hpexpireat hset hsetex hsetnx incr incrby
     incrbyfloat linsert lpop lpush lpushx lrem lset ltrim move persist pexpire pexpireat pfadd psetex
     restore restore-asking rpop rpush rpushx sadd set setbit setex setnx setrange spop srem vadd vrem
     vsetattr xack xackdel xadd xautoclaim xcfgset xclaim xdel xdelex xidmprecord xnack xsetid xtrim zadd
     zincrby zpopmax zpopmin zrem zremrangebylex zremrangebyrank zremrangebyscore delifeq delex`,
  ],
  [
    range(1, 2, 1),
    "blmove brpoplpush copy geosearchstore lmove rename renamenx rpoplpush smove zrangestore",
  ],
  [range(1, -1, 1), "del pfmerge sdiffstore sinterstore sunionstore unlink touch pfcount"],
  [range(1, -1, 2), "mset msetnx"],
  [range(1, -2, 1), "blpop brpop bzpopmax bzpopmin"],
  [range(2, -1, 1), "bitop"],
  [range(2, 2, 1), "xgroup pfdebug"],
  [{ kind: "numkeys", at: 1 }, "lmpop zmpop"],
  [{ kind: "numkeys", at: 1, step: 2 }, "msetex"],
  [{ kind: "numkeys", at: 2 }, "blmpop bzmpop eval evalsha fcall"],
  [{ kind: "numkeys", at: 2, also: 1 }, "zdiffstore zinterstore zunionstore"],
  [{ kind: "streams" }, "xreadgroup"],
  [{ kind: "store" }, "georadius georadiusbymember sort"],
  [{ kind: "migrate" }, "migrate"],
  [{ kind: "none" }, "flushall flushdb swapdb"],
];

/** Commands of a replication stream that change no keys. */
const OTHERS =
  "function script publish spublish select multi exec discard ping replconf opinfo auth cluster quit";

const SPLITTING: Readonly<Record<string, Splitting>> = {
  del: "each",
  unlink: "each",
  touch: "each",
  mset: "pairs",
};

const table = new Map<string, CommandSpec>();
for (const [keys, names] of GROUPS) {
  for (const name of names.split(/\s+/).filter(Boolean)) {
    table.set(name, { name, keys, splitting: SPLITTING[name] ?? "never", data: true });
  }
}
for (const name of OTHERS.split(" ")) {
  table.set(name, { name, keys: { kind: "none" }, splitting: "never", data: false });
}

/** All commands, by their lowercase name. */
export const commandTable: ReadonlyMap<string, CommandSpec> = table;

/** Names that have been looked up, as they are written on the wire, so that a lookup makes no new string. */
const seen = new Map<string, CommandSpec | undefined>();
const MOST_SEEN = 1000;

/** The spec of the command that `argv` begins with; undefined if it is unknown. */
export function specOf(argv: readonly Buffer[]): CommandSpec | undefined {
  const name = argv[0]?.toString("latin1") ?? "";
  const known = seen.get(name);
  if (known !== undefined) return known;
  const spec = table.get(name.toLowerCase());
  if (spec !== undefined && seen.size < MOST_SEEN) seen.set(name, spec);
  return spec;
}

/** Whether the command is known to change keys. */
export function isWrite(argv: readonly Buffer[]): boolean {
  return specOf(argv)?.data ?? false;
}
