/**
 * Autocomplete in a group of a million members: a search is one command, and no command looks at more than
 * a bounded number of members. Redis itself says how many commands it got and how long the slowest took.
 */
import { connect } from "@ropeway/core";
import { startRedis } from "@ropeway/testkit";
import { GroupMembers } from "../src/autocomplete/index.ts";
import { groupKeys } from "../src/autocomplete/keys.ts";
import type { Invariant } from "./run.ts";

const AT_ONCE = 2_000;
/** The members that are in use; they fill the lists of the most used. */
const USED = 2_000;
const SEARCHES = 200;
/** No command may hold Redis longer. */
const MOST_MS = 50;

/** Searches in a group of `members`, plain and ranked, with prefixes of every length. */
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
  const handles = [ranked, new GroupMembers(redis, "large")];
  for (const handle of handles) await handle.search("m"); // loads the script
  await server.command("CONFIG", "SET", "slowlog-log-slower-than", "0");
  await server.command("CONFIG", "SET", "slowlog-max-len", String(2 * SEARCHES));
  await server.command("SLOWLOG", "RESET");
  let found = 0;
  for (let i = 0; i < SEARCHES; i++) {
    const handle = handles[i % 2] as GroupMembers;
    found += (await handle.search(starts[i % starts.length] as string)).length;
  }
  const log = (await server.command("SLOWLOG", "GET", "-1")) as [
    number,
    number,
    number,
    string[],
  ][];
  const searches = log.filter(([, , , [name = ""]]) => !/^(slowlog|config)$/i.test(name));
  const slowest = Math.max(...searches.map(([, , micros]) => micros)) / 1_000;
  return [
    {
      name: "autocomplete-one-command",
      holds: searches.length === SEARCHES && found > 0,
      seen: `members=${members} searches=${SEARCHES} commands=${searches.length}`,
    },
    {
      name: "autocomplete-bounded",
      holds: slowest < MOST_MS,
      seen: `slowestMs=${slowest} mostMs=${MOST_MS}`,
    },
  ];
}
