import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { connect, parseEndpoint } from "../src/index.ts";
import { Link } from "../src/link.ts";

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

test.each([
  ["localhost", true],
  ["127.0.0.1", false],
])("the server's name is sent unless it is an IP address: %s", async (host, named) => {
  const proxy = createServer().listen(0, host);
  await once(proxy, "listening");
  const { port } = proxy.address() as AddressInfo;
  const accepted = once(proxy, "connection");
  const times = { connectTimeoutMs: 60_000, heartbeatMs: 0, deadAfterMs: 60_000 };
  const refused = expect(
    Link.open({ address: { host, port }, tls: true, name: "test", ...times }),
  ).rejects.toMatchObject({ code: "CONNECT_FAILED" });
  const [socket] = await accepted;
  const [hello] = await once(socket, "data");
  socket.destroy();
  await refused;
  proxy.close();
  await once(proxy, "close");
  expect(hello.includes("localhost")).toBe(named);
});
