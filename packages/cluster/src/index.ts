/** Public door of cluster. */
export { type EtcdStoreOptions, openEtcdStore } from "./store/etcd/etcd-store.ts";
export { openRedisStore, type RedisStoreOptions } from "./store/redis/redis-store.ts";
