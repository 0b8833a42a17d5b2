/** The setup of test files with many small queues: their own Redis, and a new queue per test. */
import type { Redis } from "@ropeway/core";
import type { RedisServer } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { keyOf, MergeQueue } from "../src/index.ts";

/** A server, a connection, and queues on prefixes that no other test of the file has. */
export async function queuesForFile(): Promise<{
  readonly server: RedisServer;
  readonly redis: Redis;
  readonly fresh: () => MergeQueue;
}> {
  const { server, redis } = await redisForFile();
  let prefixes = 0;
  const fresh = () => {
    prefixes += 1;
    return new MergeQueue(redis, { prefix: `q${prefixes}` });
  };
  return { server, redis, fresh };
}

/** The queue key of a merge key whose items are posted to a URL together. */
export function at(mergeKey: string, url: string): string {
  return keyOf({ mergeKey, method: "POST", url }, "");
}

/** Options of a dispatcher that calls receivers on this machine and retries soon. */
export const HTTP = { allow: ["loopback"], backoff: { delayMs: 10, maxMs: 10 } };
