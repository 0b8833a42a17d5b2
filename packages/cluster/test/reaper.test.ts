/** Leases that end in several steps, and histories that are gone, as the scripts of the Redis store see them. */
import { connect } from "@ropeway/core";
import { startRedis } from "@ropeway/testkit";
import { expect, it } from "vitest";
import { RedisStoreKeys } from "../src/store/redis/keys.ts";
import { openRedisStore } from "../src/store/redis/redis-store.ts";
import { storeEvents, storeRevoke } from "../src/store/redis/scripts.ts";

it("neither renews nor uses a lease that is being revoked in several steps", async () => {
  await using server = await startRedis();
  await using redis = await connect(server.url);
  await using store = openRedisStore(redis);
  const { id } = await store.grant(60_000);
  for (const path of ["/a/1", "/a/2"]) await store.put(path, "v", id);
  const at = new RedisStoreKeys("ropeway:store", redis.topology);
  const fixed = [at.state, at.index, at.meta, at.log, at.leases, at.held];
  const step = [...fixed, at.value("/a/1")];
  expect(await redis.run(storeRevoke, step, [1_000, id, "now", "/a/1"])).toBe(2);
  expect(await store.keepAlive(id)).toBe(0);
  await expect(store.put("/a/3", "v", id)).rejects.toMatchObject({ code: "STORE_REFUSED" });
  await store.revoke(id);
  expect((await store.range("/a/")).entries).toEqual([]);
});

it("counts every revision as gone when the log is empty", async () => {
  await using server = await startRedis();
  await using redis = await connect(server.url);
  await using store = openRedisStore(redis);
  const revision = await store.put("/a/1", "1");
  const at = new RedisStoreKeys("ropeway:store", redis.topology);
  await server.command("XTRIM", at.log, "MAXLEN", 0);
  const asked = [revision, "/a/", 250, 0, 1_000];
  expect((await redis.run(storeEvents, [at.state, at.log], asked))[2]).toBe(String(revision));
});
