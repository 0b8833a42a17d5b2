import { eventually, startProxy, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import {
  CommandRefusedError,
  KeyExistsError,
  TargetRefusedError,
  TooManyErrorsError,
} from "../src/errors.ts";
import type { SyncOptions } from "../src/options.ts";
import { SyncTask } from "../src/task.ts";
import { infoNumber } from "./load-generator.ts";

const SOURCE = { config: ["repl-diskless-sync-delay 0"] };

async function once(options: SyncOptions): Promise<SyncTask> {
  await using task = new SyncTask({ ...options, once: true });
  task.on("error", () => {});
  await task.start();
  await task.finished;
  return task;
}

test("a key that is renewed while the snapshot is loaded does not vanish, and others expire in time", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using proxy = await startProxy(target);
  const keys = Array.from({ length: 300 }, (_, i) => `k${i}`);
  await Promise.all(keys.map((key) => source.command("SET", key, "x".repeat(500), "PX", "5000")));
  await source.command("SET", "later", "1", "PX", "100000");
  proxy.throttle(30_000);
  await using task = new SyncTask({ from: source.url, to: proxy.url, batchCommands: 20 });
  await task.start();
  await eventually(() => expect(task.status).toBe("RDBRUNNING"));
  const renewed = keys.filter((_, i) => i % 2 === 0);
  await Promise.all(renewed.map((key) => source.command("PEXPIRE", key, "600000")));
  await source.command("RENAME", "later", "renamed");
  await eventually(async () => expect(Number(await source.command("DBSIZE"))).toBe(151), {
    withinMs: 20_000,
  });
  proxy.heal();
  await eventually(() => expect(task.progress().lagBytes).toBe(0), { withinMs: 20_000 });
  await eventually(
    async () => {
      for (let i = 0; i < 300; i += 2) {
        const ttl = Number(await target.command("PTTL", `k${i}`));
        expect(ttl).toBeGreaterThan(1_000);
        expect(ttl).toBeLessThanOrEqual(600_000);
      }
      expect(Number(await target.command("EXISTS", "k1"))).toBe(0);
      expect(Number(await target.command("PTTL", "renamed"))).toBeLessThan(100_001);
      expect(Number(await target.command("PTTL", "renamed"))).toBeGreaterThan(0);
    },
    { withinMs: 20_000 },
  );
}, 90_000);

test("an expiry is held back at the target until the load is over", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using proxy = await startProxy(target);
  for (let i = 0; i < 20; i++) {
    await source.command("SET", `k${i}`, "x".repeat(5_000), "PX", "600000");
  }
  proxy.throttle(30_000);
  await using task = new SyncTask({ from: source.url, to: proxy.url, batchCommands: 2, lanes: 1 });
  await task.start();
  const longest = async () => {
    const keys = Array.from({ length: 20 }, (_, i) => target.command("PTTL", `k${i}`));
    return Math.max(...(await Promise.all(keys)).map(Number));
  };
  await eventually(async () => expect(await longest()).toBeGreaterThan(24 * 3_600_000));
  await proxy.heal();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
  await eventually(async () => expect(await longest()).toBeLessThanOrEqual(600_000));
  expect(await target.command("EXISTS", "k0", "k19")).toBe(2);
}, 60_000);

test("a repeated full synchronisation deletes what the source deleted meanwhile, and nothing else", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  const ends = { from: source.url, to: target.url, name: "ghosts" };
  const dbs = ["0", "2", "15"];
  for (const db of dbs) {
    await source.command("SELECT", db);
    await source.command("MSET", "a", "1", "b", "2");
  }
  await once(ends);
  for (const db of dbs) {
    await source.command("SELECT", db);
    await source.command("DEL", "b");
  }
  await once({ ...ends, restart: true });
  for (const db of dbs) {
    await target.command("SELECT", db);
    expect(await target.command("EXISTS", "b")).toBe(0);
    expect(String(await target.command("GET", "a"))).toBe("1");
  }
});

test("keys that a target had before are not swept", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await target.command("SET", "theirs", "1");
  await source.command("SET", "a", "1");
  const ends = { from: source.url, to: target.url, name: "theirs" };
  await once(ends);
  await once({ ...ends, restart: true });
  expect(await target.command("EXISTS", "theirs")).toBe(1);
});

test("a lost history leads to a full synchronisation, or stops the task", async () => {
  await using source = await startRedis({ config: [...SOURCE.config, "repl-backlog-size 16kb"] });
  await using target = await startRedis();
  await source.command("SET", "a", "1");
  const ends = { from: source.url, to: target.url, name: "lost" };
  await once(ends);
  for (let i = 0; i < 50; i++) await source.command("SET", `big${i}`, "x".repeat(2_000));
  await expect(once({ ...ends, onResync: "stop" })).rejects.toMatchObject({
    code: "RESYNC_REQUIRED",
  });
  await once(ends);
  expect(String(await target.command("GET", "big49"))).toHaveLength(2_000);
  expect(await infoNumber(source, "sync_full")).toBeGreaterThan(1);
});

test("databases are mapped, keys filtered and renamed, in snapshot and stream", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await source.command("MSET", "user:1", "a", "tmp:1", "b");
  await source.command("SELECT", "3");
  await source.command("SET", "user:3", "c");
  await source.command("SELECT", "0");
  await using task = new SyncTask({
    from: source.url,
    to: target.url,
    dbMap: { 0: 5 },
    filter: { accept: { globs: ["user:*"] } },
    rename: { "user:": "person:" },
  });
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
  await source.command("MSET", "user:2", "x", "tmp:2", "y");
  await source.command("DEL", "user:1", "tmp:1");
  await target.command("SELECT", "5");
  await eventually(async () => expect(await target.command("KEYS", "*")).toEqual(["person:2"]));
});

test("two tasks in opposite directions do not send each other their writes", async () => {
  await using a = await startRedis(SOURCE);
  await using b = await startRedis(SOURCE);
  await using there = new SyncTask({ from: a.url, to: b.url, twoWay: true, name: "there" });
  await there.start();
  await eventually(() => expect(there.status).toBe("COMMANDRUNNING"));
  await using back = new SyncTask({
    from: b.url,
    to: a.url,
    twoWay: true,
    name: "back",
    mode: "increment",
  });
  await back.start();
  await eventually(() => expect(back.status).toBe("COMMANDRUNNING"));
  for (let i = 0; i < 20; i++) {
    await a.command("INCR", "from-a");
    await b.command("INCR", "from-b");
  }
  await eventually(async () => {
    expect(String(await b.command("GET", "from-a"))).toBe("20");
    expect(String(await a.command("GET", "from-b"))).toBe("20");
  });
  await a.command("SET", "end", "1");
  await eventually(async () => expect(String(await b.command("GET", "end"))).toBe("1"));
  expect(String(await a.command("GET", "from-a"))).toBe("20");
});

test("existing keys are kept or refused, as the option says", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await source.command("SET", "a", "new");
  await target.command("SET", "a", "old");
  const ends = { from: source.url, to: target.url };
  await expect(once({ ...ends, existing: "fail" })).rejects.toBeInstanceOf(KeyExistsError);
  await once({ ...ends, existing: "keep", restart: true });
  expect(String(await target.command("GET", "a"))).toBe("old");
  await once({ ...ends, restart: true });
  expect(String(await target.command("GET", "a"))).toBe("new");
});

test("FLUSHALL is applied to a target of our own, and stops the task before one that had data", async () => {
  await using source = await startRedis(SOURCE);
  await using own = await startRedis();
  await using shared = await startRedis();
  await shared.command("SET", "theirs", "1");
  const first = { from: source.url, to: own.url };
  const second = { from: source.url, to: shared.url };
  await source.command("SET", "a", "1");
  await once(first);
  await once(second);
  await source.command("FLUSHALL");
  await source.command("SET", "b", "1");
  await once(first);
  expect(await own.command("EXISTS", "a")).toBe(0);
  expect(await own.command("EXISTS", "b")).toBe(1);
  await expect(once(second)).rejects.toBeInstanceOf(CommandRefusedError);
  expect(await shared.command("EXISTS", "theirs")).toBe(1);
  await once({ ...second, flush: "drop" });
  expect(await shared.command("EXISTS", "b")).toBe(1);
});

test("a target without memory is waited for, and then refused with a sentence", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis({
    config: ["maxmemory 3mb", "maxmemory-policy noeviction"],
  });
  for (let i = 0; i < 40; i++) await source.command("SET", `k${i}`, "x".repeat(100_000));
  const ends = { from: source.url, to: target.url };
  const failed = once({ ...ends, stallMs: 300 });
  await expect(failed).rejects.toBeInstanceOf(TargetRefusedError);
  await expect(failed).rejects.toThrow(/Raise maxmemory/);
  await target.command("CONFIG", "SET", "maxmemory", "0");
  await once(ends);
  expect(String(await target.command("GET", "k39"))).toHaveLength(100_000);
});

test("a write that fails is recorded, and one too many ends the task", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await source.command("RPUSH", "list", "a");
  const ends = { from: source.url, to: target.url, name: "errors" };
  await once(ends);
  await target.command("SET", "list", "wrong type");
  await source.command("RPUSH", "list", "b");
  await expect(once(ends)).rejects.toBeInstanceOf(TooManyErrorsError);
  await source.command("RPUSH", "list", "c");
  const task = await once({ ...ends, maxErrors: 1 });
  expect(task.progress().errors).toBe(1);
  const [record] = (await target.command(
    "LRANGE",
    "ropeway:sync:{errors}:discarded",
    "0",
    "0",
  )) as string[];
  expect(JSON.parse(record ?? "")).toMatchObject({ command: "RPUSH", key: "list", db: 0 });
});

test("an element of a collection may be as large as a server allows", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  const size = 65 * 1024 * 1024;
  await source.command("EVAL", `redis.call("RPUSH", "l", string.rep("x", ${size}), "y")`, "0");
  await once({ from: source.url, to: target.url });
  const sizes = `return {#redis.call("LINDEX", "l", 0), redis.call("LLEN", "l")}`;
  expect(await target.command("EVAL", sizes, "0")).toEqual([size, 2]);
}, 60_000);
