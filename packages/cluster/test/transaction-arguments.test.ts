/** What a transaction on Redis may do without memory. */
import { connect } from "@ropeway/core";
import { startRedis } from "@ropeway/testkit";
import { expect, it } from "vitest";
import { openRedisStore } from "../src/store/redis/redis-store.ts";

it("writes while Redis is out of memory only if it says so", async () => {
  await using server = await startRedis({ config: ["maxmemory-policy noeviction"] });
  await using redis = await connect(server.url);
  await using store = openRedisStore(redis);
  await server.command("CONFIG", "SET", "maxmemory", "1");
  const put = { op: "put", key: "/a/note", value: "1" } as const;
  for (const evenIfFull of [undefined, false]) {
    const refused = store.txn({ do: [put], evenIfFull });
    await expect(refused).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
  }
  expect(await store.txn({ do: [put], evenIfFull: true })).toMatchObject({ succeeded: true });
  expect(await store.get("/a/note")).toMatchObject({ value: "1", version: 1 });
});
