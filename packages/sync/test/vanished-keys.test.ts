// Keys that expire at the target while their renewal is on its way.
import {
  eventually,
  type RedisServer,
  startCluster,
  startProxy,
  startRedis,
} from "@ropeway/testkit";
import { expect, test } from "vitest";
import { vanishedKey } from "../src/keys.ts";
import { SyncTask } from "../src/task.ts";
import { verify } from "../src/verify/verify.ts";
import { PlainRedis } from "./plain-redis.ts";

const SOURCE = { config: ["repl-diskless-sync-delay 0"] };

/** Runs the task until the target has everything. */
async function once(options: { from: string; to: string; name: string }): Promise<void> {
  await using task = new SyncTask({ ...options, once: true });
  await task.start();
  await task.finished;
  expect(task.progress().errors).toBe(0);
}

/** Lets keys expire at the target, as its own clock does; at the source they live on. */
async function expire(target: RedisServer, ...keys: string[]): Promise<void> {
  for (const key of keys) await target.command("PEXPIRE", key, "1");
  await gone(target, ...keys);
}

async function gone(target: RedisServer, ...keys: string[]): Promise<void> {
  await eventually(async () => expect(await target.command("EXISTS", ...keys)).toBe(0));
}

test("keys that were renewed while no task ran are there, although the target had expired them", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  const ends = { from: source.url, to: target.url, name: "away" };
  const keys = ["string", "counter", "hash", "list", "renamed", "kept", "left"];
  await source.command("SET", "string", "v");
  await source.command("SET", "counter", "10");
  await source.command("HSET", "hash", "a", "1", "b", "2");
  await source.command("RPUSH", "list", "1", "2", "3");
  for (const key of ["renamed", "kept", "left"]) await source.command("SET", key, key);
  for (const key of keys) await source.command("PEXPIRE", key, "600000");
  await source.command("PEXPIRE", "left", "1");
  await once(ends);
  await source.command("PEXPIRE", "string", "600000");
  await source.command("INCR", "counter");
  await source.command("PERSIST", "counter");
  await source.command("HSET", "hash", "b", "3");
  await source.command("PEXPIRE", "hash", "600000");
  await source.command("PERSIST", "list");
  await source.command("LSET", "list", "1", "two");
  await source.command("PERSIST", "renamed");
  await source.command("RENAME", "renamed", "new");
  await source.command("SET", "kept", "again", "KEEPTTL");
  await source.command("PERSIST", "kept");
  await expire(target, ...keys);
  const partial = Number(await info(source, "sync_partial_ok"));
  await once(ends);
  expect(Number(await info(source, "sync_partial_ok"))).toBe(partial + 1);
  expect(await target.command("GET", "string")).toBe("v");
  expect(await target.command("GET", "counter")).toBe("11");
  expect(await target.command("HGETALL", "hash")).toEqual(["a", "1", "b", "3"]);
  expect(await target.command("LRANGE", "list", "0", "-1")).toEqual(["1", "two", "3"]);
  expect(await target.command("MGET", "new", "kept", "left")).toEqual(["renamed", "again", null]);
  expect(Number(await target.command("TTL", "string"))).toBeGreaterThan(500);
  expect(await verify(ends)).toMatchObject({ keys: 6, different: 0 });
}, 60_000);

test("a key that was made and renewed while no task ran is there, also in other databases and transactions", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  const ends = { from: source.url, to: target.url, name: "made" };
  await source.command("SET", "k", "before");
  await once(ends);
  await using client = await PlainRedis.open(source);
  await client.send("SELECT", 3);
  await client.send("RPUSH", "l", "1");
  await client.send("PEXPIRE", "l", 200);
  await client.send("MULTI");
  await client.send("RPUSH", "l", "2");
  await client.send("PERSIST", "l");
  await client.send("EXEC");
  await client.send("SELECT", 0);
  await client.send("SET", "k", "short", "PX", 300);
  await client.send("APPEND", "k", "er");
  await client.send("PEXPIRE", "k", 600_000);
  await client.send("SWAPDB", 0, 3);
  await new Promise((resolve) => setTimeout(resolve, 400));
  await once(ends);
  await using reader = await PlainRedis.open(target);
  expect(((await reader.send("LRANGE", "l", 0, -1)) as Buffer[]).map(String)).toEqual(["1", "2"]);
  await reader.send("SELECT", 3);
  expect(String(await reader.send("GET", "k"))).toBe("shorter");
  expect(await verify(ends)).toMatchObject({ keys: 2, different: 0 });
}, 60_000);

test("a key that expires while the connection to the source is lost is read again", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using proxy = await startProxy(source);
  await using task = new SyncTask({ from: proxy.url, to: target.url, connectTimeoutMs: 500 });
  task.on("error", () => {});
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
  await source.command("SET", "n", "5", "PX", "600000");
  await eventually(async () => expect(await target.command("GET", "n")).toBe("5"));
  proxy.refuse();
  proxy.cut();
  await source.command("INCR", "n");
  await source.command("PEXPIRE", "n", "600000");
  await expire(target, "n");
  proxy.heal();
  await eventually(async () => expect(await target.command("GET", "n")).toBe("6"), {
    withinMs: 20_000,
  });
  await eventually(async () => {
    await source.command("INCR", "moves the stream on");
    expect(await target.command("KEYS", "ropeway:*vanished*")).toEqual([]);
  });
}, 60_000);

test("a key that expires while the connection to the source stands still is read again", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using proxy = await startProxy(source);
  await using task = new SyncTask({ from: proxy.url, to: target.url });
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
  await source.command("SET", "n", "5", "PX", "600000");
  await eventually(async () => expect(await target.command("GET", "n")).toBe("5"));
  proxy.halfOpen();
  await source.command("INCR", "n");
  await source.command("PEXPIRE", "n", "500000");
  await expire(target, "n");
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  await proxy.heal();
  await eventually(async () => expect(await target.command("GET", "n")).toBe("6"));
}, 60_000);

test("a key that expired a moment before its command arrives is read again, and is no error", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using task = new SyncTask({ from: source.url, to: target.url, name: "moment" });
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
  await source.command("RPUSH", "list", "1", "2", "3");
  await source.command("SET", "string", "v");
  await source.command("SET", "old", "v");
  await eventually(async () => expect(await target.command("EXISTS", "old")).toBe(1));
  // As an expiry of the target's own.
  await target.command("DEL", "list", "string", "old");
  await source.command("LSET", "list", "1", "two");
  await source.command("EXPIRE", "string", "600");
  await source.command("RENAME", "old", "new");
  await eventually(async () => {
    expect(await target.command("LRANGE", "list", "0", "-1")).toEqual(["1", "two", "3"]);
    expect(await target.command("MGET", "string", "old", "new")).toEqual(["v", null, "v"]);
  });
  expect(task.progress().errors).toBe(0);
});

test("a late command that the target refuses is no error if its key is read, and is one if that is refused too", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis({ config: ['rename-command APPEND ""'] });
  await target.command(
    "ACL",
    "SETUSER",
    "syncer",
    "on",
    ">pw",
    "+@all",
    "%R~*",
    "~ropeway:*",
    "~k*",
  );
  const to = target.url.replace("redis://", "redis://syncer:pw@");
  const ends = { from: source.url, to, name: "refused" };
  await once(ends);
  await source.command("APPEND", "k", "1");
  await once(ends);
  expect(await target.command("GET", "k")).toBe("1");
  await source.command("APPEND", "other", "1");
  await using task = new SyncTask({ ...ends, maxErrors: 1, once: true });
  await task.start();
  await task.finished;
  expect(task.progress().errors).toBe(1);
  expect(await target.command("EXISTS", "other")).toBe(0);
}, 60_000);

test("of commands that the target refuses, each is in the value that is read or is counted", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis({ config: ['rename-command APPEND ""'] });
  const ends = { from: source.url, to: target.url, name: "counted" };
  await once(ends);
  await source.command("APPEND", "k", "1");
  await using task = new SyncTask({ ...ends, maxErrors: 1_000 });
  await task.start();
  for (let i = 1; i < 500; i++) await source.command("APPEND", "k", "1");
  await eventually(async () => {
    const read = Number(await target.command("STRLEN", "k"));
    expect(read).toBeGreaterThan(0);
    expect(read + task.progress().errors).toBe(500);
  });
}, 60_000);

test("a kill between the note of a doubt and its end leaves the key to the next run", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  const ends = { from: source.url, to: target.url, name: "noted" };
  await source.command("HSET", "h", "a", "1", "b", "2");
  await once(ends);
  // As a run leaves it that applied half of the commands.
  await target.command("DEL", "h");
  await target.command("HSET", "h", "b", "2");
  await target.command("SADD", vanishedKey("noted", 0), "0:h", "0:nowhere");
  await once(ends);
  expect(await target.command("HGETALL", "h")).toEqual(["a", "1", "b", "2"]);
  expect(await verify(ends)).toMatchObject({ keys: 1, different: 0 });
});

test("a cluster gets keys again that it expired too early", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startCluster({ masters: 3 });
  const ends = { from: source.url, to: target.url, name: "many" };
  const keys = Array.from({ length: 20 }, (_, i) => `k${i}`);
  for (const key of keys) await source.command("SET", key, "7", "PX", "600000");
  await once(ends);
  for (const key of keys) {
    await source.command("INCR", key);
    await source.command("PERSIST", key);
  }
  for (const key of keys) await expire(await target.nodeOf(key), key);
  await once(ends);
  expect(await verify(ends)).toMatchObject({ keys: 20, different: 0 });
}, 60_000);

test("keys of a cluster are read again from their master", async () => {
  await using source = await startCluster({ masters: 3, config: SOURCE.config });
  await using target = await startRedis();
  const ends = { from: source.url, to: target.url, name: "masters" };
  const call = async (name: string, key: string, ...rest: string[]) =>
    (await source.nodeOf(key)).command(name, key, ...rest);
  const keys = Array.from({ length: 20 }, (_, i) => `k${i}`);
  for (const key of keys) await call("SET", key, "7", "PX", "600000");
  await once(ends);
  for (const key of keys) {
    await call("INCR", key);
    await call("PERSIST", key);
  }
  await expire(target, ...keys);
  await once(ends);
  expect(await target.command("MGET", ...keys)).toEqual(keys.map(() => "8"));
  expect(await verify(ends)).toMatchObject({ keys: 20, different: 0 });
}, 60_000);

async function info(server: RedisServer, field: string): Promise<string | undefined> {
  return new RegExp(`${field}:(\\d+)`).exec(String(await server.command("INFO", "stats")))?.[1];
}
