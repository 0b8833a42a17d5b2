import {
  eventually,
  type FaultProxy,
  type RedisServer,
  startProxy,
  startRedis,
} from "@ropeway/testkit";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { connect } from "../src/index.ts";
import { sleep } from "../src/wait.ts";

let server: RedisServer;
let proxy: FaultProxy;

beforeAll(async () => {
  server = await startRedis();
  proxy = await startProxy(server);
});

afterEach(() => proxy.heal());

afterAll(async () => {
  await proxy.close();
  await server.close();
});

test("a connection cut under load costs only what was under way", async () => {
  await using redis = await connect(proxy.url);
  for (let round = 0; round < 5; round++) {
    const answers = Array.from({ length: 200 }, () => redis.send(["INCR", "cut"]));
    proxy.cut();
    const outcomes = await Promise.allSettled(answers);
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") {
        expect(outcome.reason).toMatchObject({ code: "CONNECTION_LOST" });
      }
    }
    expect(await redis.send(["PING"])).toBe("PONG");
  }
});

test("a peer that fell silent is noticed by the heartbeat, and what waits is rejected", async () => {
  await using redis = await connect(proxy.url, { heartbeatMs: 50, deadAfterMs: 200 });
  proxy.halfOpen();
  await expect(redis.send(["PING"])).rejects.toMatchObject({ code: "CONNECTION_LOST" });
  proxy.heal();
  expect(await redis.send(["PING"])).toBe("PONG");
});

test("answers that arrive byte by byte are whole", async () => {
  await using redis = await connect(proxy.url);
  proxy.split(1);
  const value = "é".repeat(300);
  await redis.send(["SET", "split", value]);
  expect(await redis.send(["MGET", "split", "none", "split"])).toEqual([value, null, value]);
});

test("a connection that is refused for a while is made when it can be", async () => {
  proxy.refuse();
  const connecting = connect(proxy.url, { connectWaitMs: 10_000 });
  await expect(connect(proxy.url, { connectWaitMs: 50 })).rejects.toMatchObject({
    code: "CONNECT_FAILED",
  });
  proxy.heal();
  await using redis = await connecting;
  expect(await redis.send(["PING"])).toBe("PONG");
});

test("closing while the peer is silent ends within its bound", async () => {
  const redis = await connect(proxy.url, { closeWithinMs: 100 });
  proxy.halfOpen();
  const unanswered = expect(redis.send(["PING"])).rejects.toMatchObject({
    code: "CONNECTION_LOST", // it was under way: the server may have applied it
  });
  await redis.close();
  await unanswered;
  proxy.cut();
  await eventually(async () => expect(await server.clients()).toEqual([]));
});

test("closing ends also when the connection breaks while the last answer is awaited", async () => {
  const redis = await connect(proxy.url, { closeWithinMs: 1_000 });
  const last = expect(redis.send(["BLPOP", "never", "60"])).rejects.toMatchObject({
    code: "CONNECTION_LOST",
  });
  await eventually(async () => {
    expect(String(await server.command("INFO", "clients"))).toContain("blocked_clients:1");
  });
  const closed = redis.close();
  proxy.cut();
  await Promise.all([last, closed]);
  await eventually(async () => expect(await server.clients()).toEqual([]));
});

test("closing opens no further connection", async () => {
  const before = await connectionsReceived();
  const redis = await connect(proxy.url);
  await sleep(1_100); // an older link is replaced without a pause
  await redis.close();
  await eventually(async () => expect(await server.clients()).toEqual([]));
  expect(await connectionsReceived()).toBe(before + 1);
});

async function connectionsReceived(): Promise<number> {
  const stats = String(await server.command("INFO", "stats"));
  return Number(/total_connections_received:(\d+)/.exec(stats)?.[1]);
}
