import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { startRedis } from "@ropeway/testkit";
import { afterAll, expect, test } from "vitest";
import { SentCommands } from "../src/sent-commands.ts";

const server = await startRedis();
afterAll(() => server.close());

test("counts the commands that clients send, but neither those inside scripts nor INFO", async () => {
  const sent = await SentCommands.start(server.url);
  await server.command("PING"); // opens its connection
  const before = await sent.count();
  await server.command("SET", "key", "1");
  await server.command(
    "EVAL",
    "redis.call('GET', KEYS[1]) return redis.call('GET', KEYS[1])",
    "1",
    "key",
  );
  await server.command("INFO");
  expect((await sent.count()) - before).toBe(2);
  sent.close();
});

test("starts while commands arrive together with the reply to MONITOR", async () => {
  server.pause();
  const starting = SentCommands.start(server.url);
  const clients: Socket[] = [];
  for (let i = 0; i < 20; i++) {
    const client = connect(server.port, server.host);
    await once(client, "connect");
    client.write("SET other 1\r\n".repeat(20));
    clients.push(client);
  }
  server.resume();
  const sent = await starting;
  expect(await sent.count()).toBeGreaterThan(0);
  sent.close();
  for (const client of clients) client.destroy();
});
