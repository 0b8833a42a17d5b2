import { silentLogger } from "@ropeway/core";
import { eventually, type RedisServer, startProxy, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { SyncTask } from "../src/task.ts";
import { noise } from "./data-set.ts";
import { infoNumber } from "./load-generator.ts";

const SOURCE = { config: ["repl-diskless-sync-delay 0"] };
const LONG = { withinMs: 30_000 };

async function counts(server: RedisServer, key: string, times: number): Promise<void> {
  for (let i = 0; i < times; i++) await server.command("INCR", key);
}

async function reaches(server: RedisServer, key: string, value: string): Promise<void> {
  await eventually(async () => expect(String(await server.command("GET", key))).toBe(value), LONG);
}

test("a target that restarts from an older file gets again what it lost", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using task = new SyncTask({ from: source.url, to: target.url });
  task.on("error", () => {});
  await task.start();
  await counts(source, "n", 10);
  await reaches(target, "n", "10");
  await target.command("SAVE");
  await counts(source, "n", 10);
  await reaches(target, "n", "20");
  await target.kill9();
  await target.start();
  await counts(source, "n", 10);
  await reaches(target, "n", "30");
  expect(task.progress()).toMatchObject({ fullResyncs: 1, partialResyncs: 1 });
}, 60_000);

test("a target that lost everything is filled again", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await source.command("SET", "before", "1");
  await using task = new SyncTask({ from: source.url, to: target.url });
  task.on("error", () => {});
  await task.start();
  await counts(source, "n", 10);
  await reaches(target, "n", "10");
  await target.command("FLUSHALL");
  await counts(source, "n", 1);
  await reaches(target, "n", "11");
  await reaches(target, "before", "1");
}, 60_000);

test("a connection that is lost during the full synchronisation means that it is repeated", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using proxy = await startProxy(source);
  for (let i = 0; i < 40; i++) await source.command("SET", `k${i}`, noise(50_000, i));
  proxy.throttle(200_000);
  await using task = new SyncTask({ from: proxy.url, to: target.url, name: "cut" });
  task.on("error", () => {});
  await task.start();
  await eventually(() => expect(task.progress().snapshotBytes).toBeGreaterThan(100_000), LONG);
  proxy.throttle(100_000_000);
  proxy.cut();
  await counts(source, "n", 5);
  await reaches(target, "n", "5");
  await eventually(async () => {
    expect(Number(await target.command("EXISTS", ...range(40)))).toBe(40);
  }, LONG);
  expect(task.progress().fullResyncs).toBe(2);
}, 60_000);

test("a source that falls silent without closing the connection is noticed", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using proxy = await startProxy(source);
  let faults = 0;
  const logger = { ...silentLogger, warn: () => (faults += 1) };
  await using task = new SyncTask({ from: proxy.url, to: target.url, silenceMs: 1_500, logger });
  task.on("error", () => {});
  await task.start();
  await counts(source, "n", 1);
  await reaches(target, "n", "1");
  proxy.halfOpen();
  await eventually(() => expect(faults).toBeGreaterThan(0), LONG);
  await proxy.heal();
  await counts(source, "n", 1);
  await reaches(target, "n", "2");
}, 60_000);

test("a target that is slower than the source does not lead to a full synchronisation", async () => {
  await using source = await startRedis({ config: [...SOURCE.config, "repl-backlog-size 1mb"] });
  await using target = await startRedis();
  await using proxy = await startProxy(target);
  const ends = { from: source.url, to: proxy.url, name: "slow" };
  await using task = new SyncTask({ ...ends, spoolMemoryBytes: 1024 * 1024 });
  task.on("error", () => {});
  await task.start();
  await counts(source, "n", 1);
  await reaches(target, "n", "1");
  proxy.throttle(200_000);
  // Several times what the backlog of the source and the memory of the spool hold.
  const value = noise(20_000);
  for (let i = 0; i < 300; i++) await source.command("SET", `k${i}`, value);
  await counts(source, "n", 1);
  // The source has nothing left to send, although the target has a part of it only.
  const written = await infoNumber(source, "master_repl_offset");
  await eventually(() => {
    const { offset, lagBytes } = task.progress();
    expect(offset + lagBytes).toBeGreaterThanOrEqual(written);
    expect(lagBytes).toBeGreaterThan(1_000_000);
  }, LONG);
  proxy.throttle(500_000_000);
  await reaches(target, "n", "2");
  expect(task.progress()).toMatchObject({ fullResyncs: 1, partialResyncs: 0 });
}, 60_000);

for (const command of ["FLUSHDB", "SWAPDB"] as const) {
  test(`${command} during the full synchronisation does not change expiries of other keys`, async () => {
    await using source = await startRedis(SOURCE);
    await using target = await startRedis();
    await using proxy = await startProxy(source);
    for (let i = 0; i < 20; i++) await source.command("SET", `k${i}`, noise(50_000, i));
    await source.command("SELECT", "3");
    await source.command("SET", "short", "v", "EX", "600");
    await source.command("SELECT", "0");
    proxy.throttle(400_000);
    await using task = new SyncTask({ from: proxy.url, to: target.url, name: "expiries" });
    task.on("error", () => {});
    await task.start();
    await eventually(() => expect(task.progress().snapshotBytes).toBeGreaterThan(100_000), LONG);
    await source.command(...(command === "FLUSHDB" ? [command] : ([command, "0", "3"] as const)));
    proxy.throttle(100_000_000);
    await target.command("SELECT", command === "FLUSHDB" ? "3" : "0");
    await eventually(async () => {
      const ttl = Number(await target.command("TTL", "short"));
      expect(ttl).toBeGreaterThan(0);
      expect(ttl).toBeLessThanOrEqual(600);
    }, LONG);
    await target.command("SELECT", "3");
    expect(await target.command("KEYS", "ropeway:*")).toEqual([]);
  }, 60_000);
}

test("start() rejects if the source refuses us", async () => {
  await using source = await startRedis({ ...SOURCE, password: "right" });
  await using target = await startRedis();
  const from = source.url.replace("right", "wrong");
  await using task = new SyncTask({ from, to: target.url });
  await expect(task.start()).rejects.toMatchObject({ code: "AUTH_FAILED" });
});

function range(count: number): [string, ...string[]] {
  return Array.from({ length: count }, (_, i) => `k${i}`) as [string, ...string[]];
}

test("keys of a batch whose replies were lost are read again, because commands may have failed", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using proxy = await startProxy(target);
  await using task = new SyncTask({ from: source.url, to: proxy.url, name: "lost" });
  task.on("error", () => {});
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
  await source.command("SET", "first", "1");
  await reaches(target, "first", "1");
  await target.command("SET", "list", "in the way");
  proxy.delay(1_000);
  const script = "redis.call('RPUSH', 'list', 'a') redis.call('SET', 'seen', '1')";
  await source.command("EVAL", script, "0");
  await reaches(target, "seen", "1");
  proxy.cut();
  proxy.heal();
  await eventually(async () => expect(await target.command("TYPE", "list")).toBe("list"), LONG);
  expect(await target.command("LRANGE", "list", "0", "-1")).toEqual(["a"]);
  expect(task.progress()).toMatchObject({ errors: 0, fullResyncs: 1 });
}, 60_000);
