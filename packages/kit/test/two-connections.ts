/** What most test files begin with: a Redis of their own and two connections, as two processes have. */
import { connect, type Redis } from "@ropeway/core";
import { eventually, type RedisServer } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, expect } from "vitest";

/** The server, its connections, and names that no other test has used. */
export interface TwoConnections {
  readonly server: RedisServer;
  readonly redis: Redis;
  readonly other: Redis;
  readonly fresh: () => string;
  /** Waits until a sorted set has so many members. */
  readonly sized: (key: string, members: number) => Promise<void>;
}

/** Starts them for this file; `stem` is what fresh names begin with. */
export async function twoConnections(stem: string): Promise<TwoConnections> {
  const { server, redis } = await redisForFile();
  const other = await connect(server.url);
  afterAll(() => other.close());
  let count = 0;
  return {
    server,
    redis,
    other,
    fresh: () => {
      count += 1;
      return `${stem}${count}`;
    },
    sized: (key, members) =>
      eventually(async () => expect(await server.command("ZCARD", key)).toBe(members)),
  };
}
