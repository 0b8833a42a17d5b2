import { connect, type Redis } from "@ropeway/core";
import { startRedis } from "@ropeway/testkit";
import { openRedisStore } from "../src/store/redis/redis-store.ts";
import type { Store } from "../src/store/store.ts";
import { storeConformance } from "./store.conformance.ts";

storeConformance("redis", async () => {
  const server = await startRedis({ appendonly: true });
  const connections: Redis[] = [];
  return {
    async open() {
      const redis = await connect(server.url);
      connections.push(redis);
      return openRedisStore(redis);
    },
    async restart() {
      await server.kill9();
      await server.start();
    },
    compact: (store, revision) =>
      (store as Store & { compact(revision: number): Promise<void> }).compact(revision),
    async close() {
      await Promise.all(connections.map((redis) => redis.close()));
      await server.close();
    },
  };
});
