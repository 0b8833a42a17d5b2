import { once } from "node:events";
import { connect } from "node:net";
import { startRedis } from "@ropeway/testkit";
import { test } from "vitest";

test("leaves a client connected, one that does not even keep the process alive", async () => {
  await using redis = await startRedis();
  const client = connect(redis.port, redis.host);
  client.on("error", () => {});
  client.write("CLIENT SETNAME forgotten\r\n");
  await once(client, "data");
  client.unref();
});
