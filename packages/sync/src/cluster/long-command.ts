/** Divides commands that have more words than a Lua script can pass on. */
import { MOST_WORDS } from "./slot-writer.ts";

/** How many words stay at the front, and how many of the following words belong together. */
const DIVISIBLE: Readonly<Record<string, readonly [front: number, group: number]>> = {
  RPUSH: [2, 1],
  LPUSH: [2, 1],
  SADD: [2, 1],
  SREM: [2, 1],
  ZREM: [2, 1],
  HDEL: [2, 1],
  PFADD: [2, 1],
  XDEL: [2, 1],
  XACK: [3, 1],
  HSET: [2, 2],
  HMSET: [2, 2],
  DEL: [1, 1],
  UNLINK: [1, 1],
  MSET: [1, 2],
};

/** The command as commands of bounded length, or undefined if it cannot be divided. */
export function shortened(argv: readonly Buffer[]): readonly (readonly Buffer[])[] | undefined {
  if (argv.length <= MOST_WORDS) return [argv];
  const name = String(argv[0]).toUpperCase();
  // ZADD has flags before its pairs; without flags the third word is a score.
  const plainZadd = name === "ZADD" && !Number.isNaN(Number(String(argv[2])));
  const [front, group] = plainZadd ? [2, 2] : (DIVISIBLE[name] ?? [0, 0]);
  if (group === 0) return undefined;
  const step = Math.floor((MOST_WORDS - front) / group) * group;
  const pieces: Buffer[][] = [];
  for (let at = front; at < argv.length; at += step) {
    pieces.push([...argv.slice(0, front), ...argv.slice(at, at + step)]);
  }
  return pieces;
}
