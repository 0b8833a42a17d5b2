import { once } from "node:events";
import { connect, createServer } from "node:net";
import { test } from "vitest";

test("leaves a listener and a connection open", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  await once(connect(address.port, "127.0.0.1"), "connect");
});
