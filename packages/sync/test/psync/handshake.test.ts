import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { expect, test } from "vitest";
import { ByteReader } from "../../src/psync/byte-reader.ts";
import { handshake } from "../../src/psync/handshake.ts";

test("does not read without end from a server that never ends its reply to INFO", async () => {
  const flood = Buffer.from("db0:keys=1,expires=0,avg_ttl=0\r\n".repeat(1_000));
  const server = createServer((socket) => {
    socket.on("error", () => {});
    const pour = () => {
      while (socket.write(flood));
    };
    socket.once("data", () => {
      socket.write("+PONG\r\n");
      pour();
      socket.on("drain", pour);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const reader = new ByteReader(socket, "the source", 10_000);
  const shaking = handshake(socket, reader, { where: "the source", keepOff: ["mark"] });
  await expect(shaking).rejects.toMatchObject({ code: "PSYNC_REFUSED" });
  socket.destroy();
  server.close();
});
