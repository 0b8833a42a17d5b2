/** A command that was sent again after a lost connection, and whose first copy arrives after all that. */
import { expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { roomKeys } from "../src/chat/keys.ts";
import { sendScript as sendScriptOfChat } from "../src/chat/scripts.ts";
import { LockStore } from "../src/lock/store.ts";
import { mailboxKeys } from "../src/mailbox/keys.ts";
import { sendScript } from "../src/mailbox/scripts.ts";
import { SemaphoreStore } from "../src/semaphore/store.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, fresh } = await twoConnections("late-command");

test.each(["write", "read"] as const)(
  "does not shorten the time of a lock that is held to %s",
  async (mode) => {
    const store = new LockStore(redis, fresh(), { prefix: "", fair: true, mode });
    const request = { token: "rw1:t:me", ttlMs: 10_000, wait: true };
    const left = async () => Number(await server.command("PTTL", store.keys.lock));
    await store.acquire(request);
    await store.extend(request.token, 60_000);
    await store.ask([request.token]);
    expect(await left()).toBeGreaterThan(50_000);
    await store.acquire(request);
    expect(await left()).toBeGreaterThan(50_000);
    await store.extend(request.token, 1_000);
    expect(await left()).toBeLessThan(1_001);
    expect(await store.leave(request.token, "0")).toBe(true);
  },
);

test("does not give an end to a lock that has none", async () => {
  const store = new LockStore(redis, fresh(), { prefix: "", fair: true, mode: "write" });
  await store.acquire({ token: "rw1:t:me", ttlMs: null, wait: true });
  await store.ask(["rw1:t:me"]);
  expect(await server.command("PTTL", store.keys.lock)).toBe(-1);
});

test("does not shorten the time of a permit", async () => {
  const store = new SemaphoreStore(redis, fresh(), { prefix: "", limit: 1, ttlMs: 60_000 });
  await store.acquire("t", true);
  const ends = await server.command("ZSCORE", store.keys.leases, "t");
  await store.ask(["t"]);
  expect(Number(await server.command("ZSCORE", store.keys.leases, "t"))).toBeGreaterThanOrEqual(
    Number(ends),
  );
});

test("does not send a message again after the next one of the same slot", async () => {
  const { box, leases, waiters, sends, tries } = mailboxKeys("", fresh());
  const send = (id: string, number: number) =>
    redis.run(
      sendScript,
      [box, leases, waiters, sends, tries],
      [...[id, "", "1", 0, 10, "reject"], ...["slot", number]],
    );
  await send("first", 1);
  await send("second", 2);
  await send("first", 1);
  expect(await server.command("LLEN", box)).toBe(2);
});

test("does not send a chat message again after the next one of the same slot", async () => {
  const room = await new Chat<string>(redis).create({
    sender: "a",
    recipients: ["b"],
    message: "",
  });
  const { lock, ids, msgs, members, live, sends } = roomKeys("", room.id);
  const send = (number: number) =>
    redis.run(
      sendScriptOfChat,
      [lock, ids, msgs, members, live, sends],
      [...['"a"', "1", "", 10, 0], ...["slot", number]],
    );
  await send(1);
  await send(2);
  await send(1);
  expect((await room.inspect()).newest).toBe(3);
});
