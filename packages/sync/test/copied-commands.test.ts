// Commands whose form in a replication stream is not one that a client may send, or that mean another place.
import { eventually, startProxy, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { SyncTask } from "../src/task.ts";
import { verify } from "../src/verify/verify.ts";
import { PlainRedis } from "./plain-redis.ts";

const SOURCE = { config: ["repl-diskless-sync-delay 0"] };

test("streams that are trimmed with LIMIT arrive", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  const ends = { from: source.url, to: target.url, name: "limit" };
  await using task = new SyncTask(ends);
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
  const add = (id: number, ...options: string[]) =>
    source.command("XADD", "x", ...options, `${id}-1`, "limit", "100");
  for (let id = 1; id <= 350; id++) await add(id);
  await source.command("XTRIM", "x", "MAXLEN", "~", "10", "LIMIT", "100");
  await add(351, "MAXLEN", "~", "10", "LIMIT", "100");
  await add(352, "NOMKSTREAM", "MINID", "~", "349", "LIMIT", "100");
  const ids = async (server: typeof source) =>
    ((await server.command("XRANGE", "x", "-", "+")) as [string][]).map(([id]) => id);
  const expected = await ids(source);
  expect(expected.length).toBeLessThan(100);
  await eventually(async () => expect(await ids(target)).toEqual(expected));
  expect(task.progress().errors).toBe(0);
});

test("an expiry that is renewed on a condition while the snapshot is loaded is the new one", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using proxy = await startProxy(target);
  const keys = Array.from({ length: 300 }, (_, i) => `k${i}`);
  await Promise.all(keys.map((key) => source.command("SET", key, "x".repeat(500), "EX", "60")));
  proxy.throttle(10_000);
  await using task = new SyncTask({ from: source.url, to: proxy.url, batchCommands: 20 });
  await task.start();
  await eventually(() => expect(task.status).toBe("RDBRUNNING"));
  await Promise.all(keys.map((key) => source.command("EXPIRE", key, "6000", "GT")));
  expect(task.status).toBe("RDBRUNNING");
  await source.command("SET", "end", "1");
  proxy.heal();
  await eventually(() => expect(task.progress().lagBytes).toBe(0), { withinMs: 20_000 });
  await eventually(async () => {
    for (const key of keys) {
      const ttl = Number(await target.command("TTL", key));
      expect(ttl).toBeGreaterThan(1_000);
      expect(ttl).toBeLessThanOrEqual(6_000);
    }
  });
}, 60_000);

test("MOVE and COPY to another database follow the database map", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using client = await PlainRedis.open(target);
  await client.send("SELECT", 1);
  await client.send("SET", "theirs", "1");
  await using task = new SyncTask({
    ...{ from: source.url, to: target.url, name: "moves" },
    dbMap: { 0: 5, 1: 6, 3: 5 },
  });
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
  for (const key of ["moved", "copied", "left", "same"]) await source.command("SET", key, key);
  await source.command("MOVE", "moved", "1");
  await source.command("COPY", "copied", "copy", "DB", "1");
  await source.command("COPY", "copied", "nowhere", "DB", "2");
  await source.command("MOVE", "left", "2");
  await source.command("MOVE", "same", "3");
  await source.command("SET", "end", "1");
  const keysOf = async (db: number) => {
    await client.send("SELECT", db);
    return ((await client.send("KEYS", "[^r]*")) as Buffer[]).map(String).sort();
  };
  await eventually(async () => expect(await keysOf(5)).toEqual(["copied", "end", "same"]));
  expect(await keysOf(6)).toEqual(["copy", "moved"]);
  expect(await keysOf(1)).toEqual(["theirs"]);
  expect([...(await keysOf(2)), ...(await keysOf(3))]).toEqual([]);
  expect(task.progress().errors).toBe(0);
});

test("a key that comes from a database that is not copied is an error and not a loss", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using task = new SyncTask({ from: source.url, to: target.url, dbMap: { 0: 0 } });
  task.on("error", () => {});
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
  await using client = await PlainRedis.open(source);
  await client.send("SELECT", 2);
  await client.send("SET", "k", "v");
  await client.send("MOVE", "k", 0);
  await expect(task.finished).rejects.toThrow(/not copied/);
});

test("a value that arrives in parts is copied further by a second task", async () => {
  await using first = await startRedis(SOURCE);
  await using second = await startRedis(SOURCE);
  await using third = await startRedis();
  const on = { from: second.url, to: third.url, name: "on" };
  await using further = new SyncTask(on);
  await further.start();
  await eventually(() => expect(further.status).toBe("COMMANDRUNNING"));
  await first.command("SET", "string", "x".repeat(500_000));
  await first.command(
    "RPUSH",
    "list",
    ...Array.from({ length: 300 }, (_, i) => `${i}`.repeat(300)),
  );
  await using task = new SyncTask({
    ...{ from: first.url, to: second.url, name: "to" },
    ...{ bigBytes: 50_000, batchBytes: 20_000 },
  });
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
  await second.command("SET", "end", "1");
  await eventually(async () => expect(await third.command("GET", "end")).toBe("1"));
  expect(await verify(on)).toMatchObject({ keys: 3, different: 0 });
  const rest = (await third.command("KEYS", "ropeway:*")) as string[];
  expect(rest.filter((key) => !key.startsWith("ropeway:sync:{on}"))).toEqual([]);
});

test("writes that find no memory are waited for, also beside one that the target does not know", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis({ config: ['rename-command MSET ""'] });
  await using task = new SyncTask({ from: source.url, to: target.url, name: "oom", maxErrors: 10 });
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
  await target.command("CONFIG", "SET", "maxmemory", "1");
  await using client = await PlainRedis.open(source);
  await client.send("MULTI");
  // It relies on no value, so its key is never in doubt, and is not read from the source instead.
  await client.send("MSET", "unknown", "1");
  for (let i = 0; i < 5; i++) await client.send("SET", `k${i}`, "v");
  await client.send("EXEC");
  await eventually(() => expect(task.progress().stalled).toMatch(/OOM/));
  await target.command("CONFIG", "SET", "maxmemory", "0");
  await eventually(async () => {
    expect(await target.command("MGET", "k0", "k4")).toEqual(["v", "v"]);
  });
  await eventually(() => expect(task.progress().errors).toBe(1)); // known when the reply has arrived
  expect(await target.command("EXISTS", "unknown")).toBe(0);
});

test("with a rename, keys of every name are swept and compared", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await source.command("MSET", "v1:a", "1", "v1:b", "2", "plain", "3", "gone", "4");
  const options = { from: source.url, to: target.url, name: "names", rename: { "v1:": "v2:" } };
  const once = async (more: object) => {
    await using task = new SyncTask({ ...options, once: true, ...more });
    await task.start();
    await task.finished;
  };
  await once({});
  await source.command("DEL", "v1:b", "gone");
  const found = async () => {
    const { differences } = await verify(options);
    return differences.map(({ key, reason }) => `${key} ${reason}`).sort();
  };
  expect(await found()).toEqual(["gone extra", "v2:b extra"]);
  await target.command("SET", "v1:left", "not ours: it would have become v2:left");
  await once({ restart: true });
  expect(await found()).toEqual([]);
  expect((await target.command("KEYS", "[^r]*")) as string[]).toHaveLength(3);
  expect(await target.command("EXISTS", "v1:left", "v2:a", "plain")).toBe(3);
});

test.each([
  ["a rename", { rename: { "a:": "b:" } }],
  ["a filter", { filter: { accept: { prefixes: ["a:l", "a:d", "end"] } } }],
])(
  "with %s, SORT by keys that are not as at the source is an error and no other order",
  async (_, options) => {
    await using source = await startRedis(SOURCE);
    await using target = await startRedis();
    const ends = { from: source.url, to: target.url, name: "sort", maxErrors: 10 };
    await using task = new SyncTask({ ...ends, ...options });
    await task.start();
    await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
    await source.command("RPUSH", "a:l", "1", "2", "3");
    await source.command("MSET", "a:w1", "3", "a:w2", "2", "a:w3", "1");
    await source.command("SORT", "a:l", "BY", "a:w*", "STORE", "a:d");
    await source.command("SORT", "a:l", "DESC", "STORE", "a:d2");
    await source.command("SET", "end", "1");
    await eventually(async () => expect(await target.command("GET", "end")).toBe("1"));
    expect(task.progress().errors).toBe(1);
    const prefix = "rename" in options ? "b" : "a";
    expect(await target.command("EXISTS", `${prefix}:d`)).toBe(0);
    expect(await target.command("LRANGE", `${prefix}:d2`, "0", "-1")).toEqual(["3", "2", "1"]);
  },
);
