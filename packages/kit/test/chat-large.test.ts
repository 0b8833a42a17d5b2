import { expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, fresh } = await twoConnections("l");

const chat = new Chat<string>(redis);

test("many large messages are read in several steps, in both directions", async () => {
  const [sender, reader] = [fresh(), fresh()];
  const sent = Array.from({ length: 12 }, (_, i) => `${i} ${"x".repeat(300_000)}`);
  const [first = "", ...others] = sent;
  const room = await chat.create({ sender, recipients: [reader], message: first });
  for (const message of others) await room.send(sender, message);
  for (const [read, expected] of [
    [() => room.pending(reader, { limit: 11 }), sent.slice(0, 11)],
    [async () => (await room.history({ limit: 11 })).items, sent.slice(1).reverse()],
  ] as const) {
    await server.command("CONFIG", "RESETSTAT");
    expect((await read()).map(({ message }) => message)).toEqual(expected);
    const stats = String(await server.command("INFO", "commandstats"));
    expect(stats).toContain("cmdstat_evalsha:calls=3,"); // 4 of them pass 1 MiB
  }
  for (const user of [sender, reader]) await room.leave(user);
});

test("many large messages that all have read are removed in several steps", async () => {
  const [sender, reader, third] = [fresh(), fresh(), fresh()];
  const large = "x".repeat(300_000);
  const room = await chat.create({ sender, recipients: [reader, third], message: large });
  const steps = async (remove: () => Promise<unknown>) => {
    await server.command("CONFIG", "RESETSTAT");
    await remove();
    const stats = String(await server.command("INFO", "commandstats"));
    return /cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1];
  };
  for (let i = 1; i < 12; i++) await room.send(sender, large);
  await room.acknowledge(sender, 12);
  await room.acknowledge(reader, 12);
  expect(await steps(() => room.acknowledge(third, 9))).toBe("3"); // 4 of them pass 1 MiB
  expect((await room.inspect()).messages).toBe(3);
  for (let i = 0; i < 6; i++) await room.send(sender, large);
  for (const user of [sender, reader]) await room.acknowledge(user, 18);
  expect(await steps(() => room.leave(third))).toBe("3");
  expect((await room.inspect()).messages).toBe(0);
  for (const user of [sender, reader]) await room.leave(user);
});

test("large messages that are too old or too many are removed a few at a time", async () => {
  const aged = new Chat<string>(redis, { maxAgeMs: 3_600_000 });
  const [sender, large] = [fresh(), "x".repeat(600_000)];
  const room = await aged.create({ sender, recipients: [], message: "" });
  const message = (id: number, ts: number) =>
    server.command("ZADD", `msgs:${room.id}`, String(id), JSON.stringify({ id, ts, large }));
  for (let id = -20; id < 0; id++) await message(id, 1 + id / 100);
  await room.send(sender, "new");
  expect((await room.inspect()).messages).toBe(20); // of 22, 2 pass 1 MiB
  await new Chat<string>(redis, { maxAgeMs: null, maxMessages: 1 }).room(room.id).send(sender, "");
  expect((await room.inspect()).messages).toBe(19);
  await room.leave(sender);
});
