import { eventually, type RedisServer, startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect } from "../src/index.ts";

let server: RedisServer;

beforeAll(async () => {
  server = await startRedis({ appendonly: true });
});

afterAll(() => server.close());

const quick = { connectWaitMs: 500, offlineWaitMs: 10_000 };

test("commands are answered in order, also many of one tick", async () => {
  await using redis = await connect(server.url);
  const replies = await Promise.all(
    Array.from({ length: 1_000 }, () => redis.send<number>(["INCR", "order"])),
  );
  expect(replies).toEqual(Array.from({ length: 1_000 }, (_, i) => i + 1));
});

test("bytes go out and come back unchanged", async () => {
  await using redis = await connect(server.url);
  const bytes = Buffer.from([0, 255, 13, 10, 200]);
  await redis.send(["SET", "bytes", bytes]);
  expect(await redis.send(["GET", "bytes"], { binary: true })).toEqual(bytes);
});

test("an error reply is typed and names the command", async () => {
  await using redis = await connect(server.url);
  await redis.send(["SET", "text", "x"]);
  await expect(redis.send(["LPUSH", "text", "y"])).rejects.toMatchObject({
    code: "SERVER_REPLY",
    prefix: "WRONGTYPE",
    message: expect.stringContaining("LPUSH"),
  });
});

test("connections carry their name and purpose", async () => {
  await using redis = await connect(server.url, { name: "shop" });
  await using _blocking = await redis.blocking("worker", "any");
  const names = (await server.clients()).map((client) => client.name);
  expect(names.sort()).toEqual(["shop", "shop:worker"]);
});

test("close is idempotent, leaves no connection, and later commands are refused", async () => {
  const redis = await connect(server.url);
  await redis.blocking("worker", "any");
  await redis.subscriber("listener");
  const last = redis.send(["INCR", "closing"]);
  await Promise.all([redis.close(), redis.close()]);
  expect(await last).toBe(1);
  await eventually(async () => expect(await server.clients()).toEqual([]));
  await expect(redis.send(["PING"])).rejects.toMatchObject({ code: "CONNECTION_CLOSED" });
});

test("a server that is down is told in one sentence", async () => {
  const down = "redis://127.0.0.1:1";
  await expect(connect(down, quick)).rejects.toMatchObject({
    code: "CONNECT_FAILED",
    message: "cannot connect to 127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1",
  });
});

test("a wrong password is told at once", async () => {
  await using locked = await startRedis({ password: "p@ss word" });
  const open = await connect(locked.url);
  await open.close();
  const wrong = `redis://:nope@127.0.0.1:${locked.port}`;
  await expect(connect(wrong, { connectWaitMs: 60_000 })).rejects.toMatchObject({
    code: "AUTH_FAILED",
  });
  const none = `redis://127.0.0.1:${locked.port}`;
  await expect(connect(none, { connectWaitMs: 60_000 })).rejects.toMatchObject({
    code: "AUTH_FAILED",
  });
});

test("a server killed under load is survived and no command hangs", async () => {
  await using redis = await connect(server.url, quick);
  await redis.send(["DEL", "load"]);
  const lost: string[] = [];
  redis.onLost((error) => lost.push(error.code));
  let acknowledged = 0;
  const rejected: unknown[] = [];
  let running = true;
  const callers = Array.from({ length: 50 }, async () => {
    while (running) {
      try {
        await redis.send(["INCR", "load"]);
        acknowledged += 1;
      } catch (error) {
        rejected.push(error);
      }
    }
  });
  await eventually(() => expect(acknowledged).toBeGreaterThan(200));
  await server.kill9();
  await server.start();
  const before = acknowledged;
  await eventually(() => expect(acknowledged).toBeGreaterThan(before + 200));
  running = false;
  await Promise.all(callers);
  for (const error of rejected) {
    expect(error).toMatchObject({ code: "CONNECTION_LOST", maybeApplied: true });
  }
  expect(lost.length).toBeGreaterThan(0);
  // Every acknowledged increment survived; a rejected one may or may not have been applied.
  const total = Number(await redis.send(["GET", "load"]));
  expect(total).toBeGreaterThanOrEqual(acknowledged);
  expect(total).toBeLessThanOrEqual(acknowledged + rejected.length);
});

test("a repeatable command is repeated over a loss instead of rejected", async () => {
  await using redis = await connect(server.url, quick);
  server.pause();
  const answers = Array.from({ length: 20 }, (_, i) =>
    redis.send(["SET", `again:${i}`, "1"], { repeatable: true }),
  );
  await server.kill9();
  await server.start();
  expect(await Promise.all(answers)).toEqual(Array(20).fill("OK"));
});

test("a command that finds no connection is rejected as never sent after offlineWaitMs", async () => {
  await using lonely = await startRedis();
  await using redis = await connect(lonely.url, { offlineWaitMs: 100 });
  await lonely.kill9();
  await eventually(() => expect(redis.connected).toBe(false));
  await expect(redis.send(["PING"])).rejects.toMatchObject({ code: "NOT_CONNECTED" });
});

test("an argument that is no text is refused without harm to the others", async () => {
  await using redis = await connect(server.url);
  const wrong = [redis.send(["SET", "x", 5 as never]), redis.send([])];
  const right = ["one", "two"].map((word) => redis.send(["ECHO", word]));
  for (const refused of wrong) await expect(refused).rejects.toThrow(TypeError);
  expect(await Promise.all(right)).toEqual(["one", "two"]);
});

test("a closed Redis lends no connection", async () => {
  const redis = await connect(server.url);
  await redis.close();
  const closed = { code: "CONNECTION_CLOSED" };
  await expect(redis.blocking("late", "any")).rejects.toMatchObject(closed);
  await expect(redis.subscriber("late")).rejects.toMatchObject(closed);
  expect(await server.clients()).toEqual([]);
});

test("a user's own EVALSHA of an unknown script is answered, not repeated for ever", async () => {
  await using redis = await connect(server.url);
  const unknown = redis.send(["EVALSHA", "0".repeat(40), "0"]);
  await expect(unknown).rejects.toMatchObject({ code: "SERVER_REPLY", prefix: "NOSCRIPT" });
});
