/** The facts about a Redis server that the checks use. */
import type { Redis } from "@ropeway/core";
import { ping, readConfig, readInfo, readTime } from "../store.ts";

/** The replies to INFO, TIME and PING. */
export interface ServerFacts {
  readonly title: string;
  readonly topology: Redis["topology"];
  /** The fields of INFO; empty if this user may not run INFO. */
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
  const info = await readInfo(redis).catch(() => new Map<string, string>());
  const trips: number[] = [];
  for (let trip = 0; trip < PINGS; trip++) {
    const sent = performance.now();
    await ping(redis);
    trips.push(performance.now() - sent);
  }
  return {
    title: redis.server.title,
    topology: redis.topology,
    info,
    config: await configFacts(redis),
    ...(await compareClocks(redis)),
    roundTripMs: trips.sort((a, b) => a - b)[Math.floor(PINGS / 2)] ?? 0,
  };
}

async function configFacts(redis: Redis): Promise<ReadonlyMap<string, string>> {
  const facts = new Map<string, string>();
  for (const name of ["save", "appendfsync"]) {
    const value = await readConfig(redis, name);
    if (value !== undefined) facts.set(name, value);
  }
  return facts;
}

async function compareClocks(
  redis: Redis,
): Promise<Pick<ServerFacts, "clockAheadMs" | "clockErrorMs">> {
  const sent = performance.now();
  const theirs = await readTime(redis);
  const tripMs = performance.now() - sent;
  return { clockAheadMs: theirs - (Date.now() - tripMs / 2), clockErrorMs: tripMs / 2 };
}
