/**
 * Tests autocomplete in a group of a million members. A search is one command, and no command reads more
 * than a bounded number of members. The slow log of Redis gives the time of the slowest command.
 */
import { connect, type Redis } from "@ropeway/core";
import { startRedis } from "@ropeway/testkit";
import { GroupMembers } from "../src/autocomplete/index.ts";
import { groupKeys } from "../src/autocomplete/keys.ts";
import type { Invariant } from "./run.ts";

const AT_ONCE = 2_000;
/** The number of used members. They fill the lists of the most used members. */
const USED = 2_000;
const SEARCHES = 200;
/** The maximum p95 of the command times. The slowest commands depend on the load of the machine. */
const MOST_MS = 50;

/** Searches a group of `members`, plain and ranked, with prefixes of different lengths. */
export async function largeGroup(members: number): Promise<readonly Invariant[]> {
  await using server = await startRedis();
  await using redis = await connect(server.url);
  const keys = groupKeys("", "large");
  const nameOf = (n: number) => `m${String(n).padStart(7, "0")}`;
  for (let from = 0; from < members; from += AT_ONCE) {
    const names = Array.from({ length: Math.min(AT_ONCE, members - from) }, (_, i) =>
      nameOf(from + i),
    );
    await redis.send(["ZADD", keys.members, ...names.flatMap((name) => ["0", name])]);
    await redis.send(["ZADD", keys.scores, ...names.flatMap((name) => ["1", name])]);
  }
  const ranked = new GroupMembers(redis, "large", { ranked: true });
  const step = Math.max(1, Math.floor(members / USED));
  for (let n = 0; n < members; n += step) await ranked.use(nameOf(n));

  const starts = ["", "m", "m0", "m00", "m0000", "m00001", "m000012", "x"];
  const sent = { count: 0 };
  const counted = counting(redis, sent);
  const handles = [
    new GroupMembers(counted, "large", { ranked: true }),
    new GroupMembers(counted, "large"),
  ];
  for (const handle of handles) await handle.search("m"); // loads the script
  await server.command("CONFIG", "SET", "slowlog-log-slower-than", "0");
  await server.command("CONFIG", "SET", "slowlog-max-len", String(2 * SEARCHES));
  await server.command("SLOWLOG", "RESET");
  sent.count = 0;
  let found = 0;
  for (let i = 0; i < SEARCHES; i++) {
    const handle = handles[i % 2] as GroupMembers;
    found += (await handle.search(starts[i % starts.length] as string)).length;
  }
  const log = (await server.command("SLOWLOG", "GET", "-1")) as [number, number, number][];
  const times = log.map(([, , micros]) => micros / 1_000).sort((a, b) => a - b);
  const [p95 = 0, slowest] = [times[Math.floor(times.length * 0.95)], times.at(-1)];
  return [
    {
      name: "autocomplete-one-command",
      holds: sent.count === SEARCHES && found > 0,
      seen: `members=${members} searches=${SEARCHES} commands=${sent.count}`,
    },
    {
      name: "autocomplete-bounded",
      holds: p95 < MOST_MS,
      seen: `p95Ms=${p95} slowestMs=${slowest} mostMs=${MOST_MS}`,
    },
  ];
}

/** The same connection, with its commands and scripts counted. */
function counting(redis: Redis, sent: { count: number }): Redis {
  return new Proxy(redis, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        if (name === "send" || name === "run") sent.count += 1;
        return value.apply(target, args);
      };
    },
  });
}
