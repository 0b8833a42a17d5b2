import { execFileSync } from "node:child_process";
import { eventually, startRedis, startReplicaPair } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterEach, expect, test, vi } from "vitest";
import { connect, silentLogger } from "../src/index.ts";

const { server, redis } = await redisForFile({ connect: { deadAfterMs: 300 } });

const forOneMinute = { blockMs: 60_000 };

afterEach(() => {
  vi.useRealTimers();
});

/** Resolves when a client of ours really waits inside a command. */
const blocked = () =>
  eventually(async () => {
    expect(String(await server.command("INFO", "clients"))).toContain("blocked_clients:1");
  });

test("a wait is answered as soon as there is something", async () => {
  await using waiting = await redis.blocking("test", "list");
  const popped = waiting.send(["BLPOP", "list", "60"], forOneMinute);
  await blocked();
  await redis.send(["RPUSH", "list", "a"]);
  expect(await popped).toEqual(["list", "a"]);
});

test("an aborted wait ends with null and the connection goes on to work", async () => {
  await using waiting = await redis.blocking("test", "list");
  for (let round = 0; round < 20; round++) {
    const abort = new AbortController();
    const popped = waiting.send(["BLPOP", "list", "60"], { blockMs: 60_000, signal: abort.signal });
    abort.abort(); // may overtake the command itself
    expect(await popped).toBeNull();
  }
  await redis.send(["RPUSH", "list", "b"]);
  expect(await waiting.send(["BLPOP", "list", "60"], forOneMinute)).toEqual(["list", "b"]);
});

test("closing during a wait loses no element", async () => {
  for (let round = 0; round < 30; round++) {
    const waiting = await redis.blocking("test", "list");
    const popped = waiting.send(["BLPOP", "list", "60"], forOneMinute);
    const pushed = redis.send(["RPUSH", "list", String(round)]);
    const closed = waiting.close();
    const [got] = await Promise.all([popped, pushed, closed]);
    const left = await redis.send<readonly string[]>(["LRANGE", "list", "0", "-1"]);
    expect(got === null ? left : [(got as string[])[1]]).toEqual([String(round)]);
    await redis.send(["DEL", "list"]);
  }
});

test("closing waits for ordinary commands, also longer than the connection is tested", async () => {
  await using other = await connect(server.url, { deadAfterMs: 100, closeWithinMs: 60_000 });
  const waiting = await other.blocking("test", "list");
  expect(await waiting.send(["BLPOP", "list", "0.01"], { blockMs: 10 })).toBeNull();
  const busy = `local function now() local t = redis.call("TIME") return t[1] * 1000 + t[2] / 1000 end
    local start = now() repeat until now() - start > 80 return "done"`;
  const done = waiting.whileFree?.send(["EVAL", busy, "0"]);
  await waiting.close();
  expect(await done).toBe("done");
});

test("a server that fell silent is noticed although nothing can be asked", async () => {
  await using silent = await startRedis();
  await using other = await connect(silent.url, { deadAfterMs: 200, heartbeatMs: 100 });
  const waiting = await other.blocking("test", "list");
  const popped = waiting.send(["BLPOP", "list", "0.1"], { blockMs: 100 });
  silent.pause();
  await expect(popped).rejects.toMatchObject({ code: "CONNECTION_LOST" });
  silent.resume();
  await waiting.close();
});

test("an element that came while this process was stopped is delivered", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  await using waiting = await redis.blocking("test", "list");
  let losses = 0;
  waiting.onLost(() => {
    losses += 1;
  });
  const popped = waiting.send(["BLPOP", "list", "60"], forOneMinute);
  await blocked();
  // Nothing runs here meanwhile. Afterwards the wait is long overdue, and its answer lies in the socket.
  const push = `require("net").connect(${server.port}, "127.0.0.1").end("RPUSH list late\\r\\n")`;
  execFileSync(process.execPath, ["-e", push]);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
  vi.advanceTimersByTime(120_000);
  expect(await popped).toEqual(["list", "late"]);
  expect(losses).toBe(0);
});

test("a server that fell silent is noticed also by what was sent while nobody waited", async () => {
  await using silent = await startRedis();
  await using other = await connect(silent.url, { deadAfterMs: 200, heartbeatMs: 100 });
  await using waiting = await other.blocking("test", "list");
  expect(await waiting.send(["BLPOP", "list", "0.01"], { blockMs: 10 })).toBeNull();
  silent.pause();
  const pushed = waiting.whileFree?.send(["RPUSH", "list", "a"]);
  await expect(pushed).rejects.toMatchObject({ code: "CONNECTION_LOST" });
  silent.resume();
});

test("a wait that was carried over to another link can still be ended", async () => {
  await using pair = await startReplicaPair();
  await using other = await connect(pair.master.url, { closeWithinMs: 60_000 });
  await using waiting = await other.blocking("test", "list");
  const abort = new AbortController();
  const popped = waiting.send(["BLPOP", "list", "60"], { blockMs: 60_000, signal: abort.signal });
  const isBlocked = () =>
    eventually(async () => {
      expect(String(await pair.master.command("INFO", "clients"))).toContain("blocked_clients:1");
    });
  await isBlocked();
  // The master is made a replica and a master again: the wait ends with UNBLOCKED and is repeated.
  await pair.master.command("REPLICAOF", "127.0.0.1", String(pair.replica.port));
  await pair.master.command("REPLICAOF", "NO", "ONE");
  await isBlocked();
  abort.abort();
  expect(await popped).toBeNull();
});

test("an abort ends also the wait for a connection", async () => {
  await using lonely = await startRedis();
  await using other = await connect(lonely.url, { offlineWaitMs: 60_000 });
  await using waiting = await other.blocking("test", "list");
  await lonely.kill9();
  await eventually(() => expect(other.connected).toBe(false));
  const abort = new AbortController();
  const popped = waiting.send(["BLPOP", "list", "60"], { blockMs: 60_000, signal: abort.signal });
  abort.abort();
  expect(await popped).toBeNull();
});

test("interrupt ends the wait under way, and does nothing when there is none", async () => {
  await using waiting = await redis.blocking("test", "list");
  waiting.interrupt();
  for (let round = 0; round < 5; round++) {
    const popped = waiting.send(["BLPOP", "list", "60"], forOneMinute);
    if (round % 2 === 0) await blocked();
    waiting.interrupt();
    expect(await popped).toBeNull();
  }
  await redis.send(["RPUSH", "list", "c"]);
  expect(await waiting.send(["BLPOP", "list", "60"], forOneMinute)).toEqual(["list", "c"]);
});

test("a user without CLIENT UNBLOCK is told once, and its waits last until their timeout", async () => {
  const rules = ["on", ">secret", "~*", "+@all", "-client|unblock"];
  await server.command("ACL", "SETUSER", "limited", ...rules);
  const warnings: unknown[] = [];
  const logger = { ...silentLogger, warn: (...said: unknown[]) => void warnings.push(said[1]) };
  await using limited = await connect(`redis://limited:secret@${server.host}:${server.port}`, {
    logger,
  });
  await using waiting = await limited.blocking("test", "list");
  await server.command("CONFIG", "RESETSTAT");
  for (let round = 0; round < 2; round++) {
    const popped = waiting.send(["BLPOP", "list", "0.5"], { blockMs: 500 });
    await blocked();
    waiting.interrupt();
    expect(await popped).toBeNull();
    expect(waiting.interruptible).toBe(false);
  }
  expect(warnings).toEqual([expect.stringContaining("CLIENT UNBLOCK is refused")]);
  const stats = String(await server.command("INFO", "commandstats"));
  expect(stats).toMatch(/client\|unblock:calls=0,.*rejected_calls=[12],/);
});
