/** What a Redis server tells about itself, gathered for the checks to judge. */
import type { Redis } from "@ropeway/core";

/** The answers of INFO, TIME and PING. */
export interface ServerFacts {
  readonly title: string;
  readonly topology: Redis["topology"];
  /** The fields of INFO; empty if this user may not ask. */
  readonly info: ReadonlyMap<string, string>;
  /** Some of CONFIG GET; a managed server often refuses that. */
  readonly config: ReadonlyMap<string, string>;
  /** How far the server's clock is ahead of ours. */
  readonly clockAheadMs: number;
  /** How wrong that can be, at most. */
  readonly clockErrorMs: number;
  /** The median of some round trips. */
  readonly roundTripMs: number;
}

const PINGS = 15;

export async function gatherFacts(redis: Redis): Promise<ServerFacts> {
  const info = await redis.send(["INFO"]).then(String, () => "");
  const trips: number[] = [];
  for (let ping = 0; ping < PINGS; ping++) {
    const sent = performance.now();
    await redis.send(["PING"]);
    trips.push(performance.now() - sent);
  }
  return {
    title: redis.server.title,
    topology: redis.topology,
    info: fieldsOf(info),
    config: await readConfig(redis),
    ...(await compareClocks(redis)),
    roundTripMs: trips.sort((a, b) => a - b)[Math.floor(PINGS / 2)] ?? 0,
  };
}

async function readConfig(redis: Redis): Promise<ReadonlyMap<string, string>> {
  const names = ["save", "appendfsync"];
  const answers = names.map((name) =>
    redis.send<string[]>(["CONFIG", "GET", name]).catch(() => []),
  );
  return new Map(
    (await Promise.all(answers)).flatMap(([name, value]) =>
      name === undefined || value === undefined ? [] : [[name, value]],
    ),
  );
}

async function compareClocks(
  redis: Redis,
): Promise<Pick<ServerFacts, "clockAheadMs" | "clockErrorMs">> {
  const sent = performance.now();
  const [seconds, micros] = await redis.send<string[]>(["TIME"]);
  const tripMs = performance.now() - sent;
  const theirs = Number(seconds) * 1_000 + Number(micros) / 1_000;
  return { clockAheadMs: theirs - (Date.now() - tripMs / 2), clockErrorMs: tripMs / 2 };
}

/** "name:value" lines as a map. */
export function fieldsOf(info: string): ReadonlyMap<string, string> {
  const lines = info.split(/\r?\n/).map((line) => /^([^#:]+):(.*)$/.exec(line));
  return new Map(lines.flatMap((match) => (match ? [[match[1] ?? "", match[2] ?? ""]] : [])));
}
