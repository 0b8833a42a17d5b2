/** Stores to test a cluster on: a real etcd and a real Redis. */
import { connect, type Redis, silentLogger } from "@ropeway/core";
import { startEtcd, startRedis } from "@ropeway/testkit";
import { openEtcdStore } from "../src/store/etcd/etcd-store.ts";
import { openRedisStore } from "../src/store/redis/redis-store.ts";
import type { Store } from "../src/store/store.ts";

/** A server that any number of stores can be opened on. */
export interface Stage {
  readonly kind: "etcd" | "redis";
  /** For child processes: what ROPEWAY_STORE and REDIS_URL would be. */
  readonly env: Readonly<Record<string, string>>;
  open(): Promise<Store>;
  close(): Promise<void>;
}

export async function etcdStage(members: 1 | 3 = 1) {
  const etcd = await startEtcd({ members });
  const stores: Store[] = [];
  const hosts = etcd.members.map(({ host, port }) => `${host}:${port}`).join(",");
  return {
    kind: "etcd" as const,
    etcd,
    env: { STORE: `etcd://${hosts}` },
    async open() {
      const store = await openEtcdStore({ endpoints: etcd.urls, logger: silentLogger });
      stores.push(store);
      return store;
    },
    async close() {
      await Promise.all(stores.map((store) => store.close()));
      await etcd.close();
    },
  } satisfies Stage & { etcd: unknown };
}

export async function redisStage() {
  const server = await startRedis({ appendonly: true });
  const open: (Store | Redis)[] = [];
  return {
    kind: "redis" as const,
    server,
    env: { STORE: server.url },
    async open() {
      const redis = await connect(server.url);
      const store = openRedisStore(redis);
      open.push(redis, store);
      return store;
    },
    async close() {
      for (const one of open.reverse()) await one.close();
      await server.close();
    },
  } satisfies Stage & { server: unknown };
}

export const stages: readonly (readonly [string, () => Promise<Stage>])[] = [
  ["etcd", () => etcdStage()],
  ["redis", redisStage],
];
