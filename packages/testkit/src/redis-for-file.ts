/**
 * What most test files begin with: a Redis of their own and a connection to it.
 *
 *   const { server, redis } = await redisForFile();
 *
 * Awaited at the top of the file and not in a beforeAll, so that both are constants there. Hooks run in
 * reverse order: whatever the file closes in an afterAll of its own is closed before these two.
 *
 * A door of its own, since it asks vitest for hooks, and benches use the testkit without vitest.
 */
import { type ConnectOptions, connect, type Redis } from "@ropeway/core";
import { afterAll } from "vitest";
import type { RedisOptions } from "./redis-options.ts";
import { type RedisServer, startRedis } from "./redis-server.ts";

/** What to start, and how to connect. */
export interface RedisForFileOptions extends RedisOptions {
  readonly connect?: ConnectOptions;
}

/** A server and a connection that are closed after the last test of the file that calls this. */
export async function redisForFile(
  options: RedisForFileOptions = {},
): Promise<{ readonly server: RedisServer; readonly redis: Redis }> {
  const { connect: how, ...what } = options;
  const server = await startRedis(what);
  afterAll(() => server.close());
  const redis = await connect(server.url, how);
  afterAll(() => redis.close());
  return { server, redis };
}
