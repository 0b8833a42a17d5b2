import { startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { connect, parseEndpoint } from "../src/index.ts";

test("a connection is encrypted, and refused if the certificate is not trusted", async () => {
  await using server = await startRedis({ tls: true, password: "hush" });
  const endpoint = parseEndpoint(server.url);
  await expect(connect(endpoint, { connectWaitMs: 3_000 })).rejects.toMatchObject({
    code: "CONNECT_FAILED",
    message: expect.stringContaining("self-signed certificate"),
  });
  await using redis = await connect({ ...endpoint, tls: { ca: server.ca ?? "" } });
  expect(await redis.send(["PING"])).toBe("PONG");
});

test("a Unix socket is as good as TCP", async () => {
  await using server = await startRedis({ socket: true });
  await using redis = await connect(server.url);
  expect(await redis.send(["PING"])).toBe("PONG");
});
