import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually, startRedis } from "@ropeway/testkit";
import { afterAll, expect, test } from "vitest";
import type { SyncOptions } from "../src/options.ts";
import { SyncTask } from "../src/task.ts";

const folder = mkdtempSync(join(tmpdir(), "ropeway-file-target-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Without the pause in which a source waits for more replicas. */
const quick = { config: ["repl-diskless-sync-delay 0"] };

async function run(options: SyncOptions) {
  await using task = new SyncTask({ once: true, ...options });
  task.on("error", () => {});
  await task.start();
  return await task.finished;
}

test("an AOF file has the data and the changes, and a second run continues it", async () => {
  await using source = await startRedis(quick);
  await using target = await startRedis(quick);
  const to = `file:${join(folder, "total.aof")}`;
  await source.command("SET", "n", "1");
  await source.command("HSET", "hash", "f", "v");
  await source.command("SET", "gone", "x", "PXAT", "99999999999999");
  await run({ from: source.url, to });
  expect(existsSync(join(folder, "total.aof.part"))).toBe(false);
  for (let i = 0; i < 10; i++) await source.command("INCR", "n");
  await source.command("SELECT", "3");
  await source.command("RPUSH", "list", "a", "b");
  // What a killed run wrote behind its checkpoint.
  appendFileSync(join(folder, "total.aof"), "*1\r\n$8\r\nFLUSHALL\r\n*2\r\n$4\r\nINC");
  const second = await run({ from: source.url, to });
  expect(second).toMatchObject({ partialResyncs: 1, fullResyncs: 0 });
  await run({ from: to, to: target.url });
  expect(await target.command("GET", "n")).toBe("11");
  expect(await target.command("HGET", "hash", "f")).toBe("v");
  expect(Number(await target.command("PEXPIRETIME", "gone"))).toBe(99_999_999_999_999);
  await target.command("SELECT", "3");
  expect(await target.command("LLEN", "list")).toBe(2);
});

test("a Redis server starts from an AOF file of ours and has what the source has", async () => {
  const debug = "enable-debug-command yes";
  await using source = await startRedis({ config: [...quick.config, debug] });
  await using server = await startRedis({ appendonly: true, config: [debug] });
  await source.command("SET", "text", "x".repeat(40_000));
  await source.command("SET", "until", "v", "PXAT", "99999999999999");
  await source.command("RPUSH", "list", "a", "b", "c");
  await source.command("ZADD", "zset", "1.5", "m");
  await source.command("XADD", "stream", "1-1", "f", "v");
  await source.command("XGROUP", "CREATE", "stream", "group", "0");
  await run({ from: source.url, to: `file:${join(folder, "server.aof")}` });
  await source.command("MULTI");
  await source.command("INCR", "n");
  await source.command("LPOP", "list");
  await source.command("EXEC");
  await source.command("XREADGROUP", "GROUP", "group", "me", "STREAMS", "stream", ">");
  await source.command("SELECT", "3");
  await source.command("HSET", "hash", "f", "v");
  await run({ from: source.url, to: `file:${join(folder, "server.aof")}` });
  await server.kill9();
  const incremental = join(server.dir, "appendonlydir", "appendonly.aof.1.incr.aof");
  expect(existsSync(incremental)).toBe(true);
  copyFileSync(join(folder, "server.aof"), incremental);
  await server.start();
  for (const db of ["0", "3"]) {
    await source.command("SELECT", db);
    await server.command("SELECT", db);
    const keys = ((await source.command("KEYS", "*")) as string[]).sort();
    expect(((await server.command("KEYS", "*")) as string[]).sort()).toEqual(keys);
    for (const key of keys) {
      const digest = await source.command("DEBUG", "DIGEST-VALUE", key);
      expect([key, await server.command("DEBUG", "DIGEST-VALUE", key)]).toEqual([key, digest]);
    }
  }
  await server.command("SELECT", "0");
  expect(await server.command("PEXPIRETIME", "until")).toBe(99_999_999_999_999);
  expect(await server.command("XPENDING", "stream", "group")).toEqual([
    1,
    "1-1",
    "1-1",
    [["me", "1"]],
  ]);
});

test("filters, renames and database maps apply to an AOF file", async () => {
  await using source = await startRedis(quick);
  await using target = await startRedis(quick);
  await source.command("MSET", "old:a", "1", "cache:b", "2");
  const to = `file:${join(folder, "mapped.aof")}`;
  const mapping = {
    filter: { refuse: { prefixes: ["cache:"] } },
    rename: { "old:": "new:" },
    dbMap: { 0: 2 },
  };
  await run({ from: source.url, to, ...mapping });
  await source.command("SET", "old:c", "3");
  await run({ from: source.url, to, ...mapping });
  await run({ from: to, to: target.url });
  await target.command("SELECT", "2");
  expect(((await target.command("KEYS", "*")) as string[]).sort()).toEqual(["new:a", "new:c"]);
});

test("an RDB file is the source's snapshot, and never half of it", async () => {
  await using source = await startRedis(quick);
  await using target = await startRedis(quick);
  for (let i = 0; i < 500; i++) await source.command("ZADD", `z${i % 7}`, String(i), `m${i}`);
  const path = join(folder, "dump.rdb");
  const stock = { from: source.url, to: `file:${path}`, mode: "stock" } as const;
  expect(await run(stock)).toMatchObject({ keys: 7 });
  expect(existsSync(`${path}.checkpoint`)).toBe(false);
  await run({ from: `file:${path}`, to: target.url });
  expect(await target.command("ZRANGE", "z3", "0", "-1", "WITHSCORES")).toEqual(
    await source.command("ZRANGE", "z3", "0", "-1", "WITHSCORES"),
  );
  await expect(run(stock)).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringContaining("--restart"),
  });
  await source.command("DEL", "z3");
  expect(await run({ ...stock, restart: true })).toMatchObject({ keys: 6 });
});

test("a JSONL file has a line per key and a line per command", async () => {
  await using source = await startRedis(quick);
  await source.command("SET", "a", "1");
  await source.command("RPUSH", "l", "x", Buffer.from([0xff]).toString("latin1"));
  const path = join(folder, "data.jsonl");
  await run({ from: source.url, to: `file:${path}`, rename: { a: "b" } });
  await source.command("INCR", "a");
  await run({ from: source.url, to: `file:${path}`, rename: { a: "b" } });
  const lines = readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const keys = lines.filter(({ kind }) => kind === "key");
  expect(keys.find(({ key }) => key === "b")).toMatchObject({ db: 0, type: "string", value: "1" });
  expect(keys).toHaveLength(2);
  expect(lines.at(-1)).toEqual({ kind: "command", db: 0, argv: ["INCR", "b"] });
});

test("a file that cannot be what the options ask for is refused", async () => {
  const refused = [
    { to: "file:data.txt" },
    { to: "file:data.rdb" },
    { to: "file:data.rdb", mode: "stock", dbMap: { 0: 1 } },
  ] as const;
  await using source = await startRedis(quick);
  for (const options of refused) {
    await expect(run({ ...options, from: source.url })).rejects.toMatchObject({
      code: "INVALID_OPTION",
    });
  }
});

test("an older run of the same task does not write into the file of a newer one", async () => {
  await using source = await startRedis(quick);
  await using target = await startRedis();
  const pairs = (name: string, length: number) =>
    Array.from({ length: 300 }, (_, i) => [`${name}${i}`, "x".repeat(length)]).flat();
  await source.command("MSET", ...pairs("a", 1_000));
  const ends = { from: source.url, to: `file:${join(folder, "two.aof")}`, name: "two" };
  await using older = new SyncTask({ ...ends, bytesPerS: 100_000, batchBytes: 5_000 });
  older.on("error", () => {});
  await older.start();
  await eventually(() => expect(older.progress().keys).toBeGreaterThan(20));
  await source.command("MSET", ...pairs("b", 700));
  await run(ends);
  const written = readFileSync(join(folder, "two.aof"));
  await expect(older.finished).rejects.toMatchObject({ code: "LEASE_LOST" });
  expect(readFileSync(join(folder, "two.aof")).equals(written)).toBe(true);
  await run({ from: ends.to, to: target.url });
  expect(await target.command("DBSIZE")).toBe(601);
}, 60_000);
