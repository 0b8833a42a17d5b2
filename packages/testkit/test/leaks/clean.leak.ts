import { once } from "node:events";
import { connect } from "node:net";
import { startRedis } from "@ropeway/testkit";
import { test } from "vitest";

test("closes what it opened", async () => {
  await using redis = await startRedis();
  const client = connect(redis.port, redis.host);
  await once(client, "connect");
  client.destroy();
});
