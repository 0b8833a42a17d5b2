/**
 * Starts a Redis server for one test file and connects to it.
 *
 *   const { server, redis } = await redisForFile();
 *
 * Await it at the top of the file and not in a beforeAll, so that both are constants. Hooks run in
 * reverse order, so the file's own afterAll hooks run before these two are closed.
 *
 * A separate entry point, because it imports vitest, and benches use the testkit without vitest.
 */
import { type ConnectOptions, connect, type Redis } from "@ropeway/core";
import { afterAll } from "vitest";
import type { RedisOptions } from "./redis-options.ts";
import { type RedisServer, startRedis } from "./redis-server.ts";

/** Options of the server and of the connection. */
export interface RedisForFileOptions extends RedisOptions {
  readonly connect?: ConnectOptions;
}

/** A server and a connection. Both are closed after the last test of the calling file. */
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
