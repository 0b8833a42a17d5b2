import {
  eventually,
  type RedisCluster,
  type RedisServer,
  type Script,
  spawnScript,
  startCluster,
  startRedis,
} from "@ropeway/testkit";
import { expect, test } from "vitest";
import { SyncTask } from "../src/task.ts";
import { infoNumber } from "./load-generator.ts";

const SOURCE = { config: ["repl-diskless-sync-delay 0", "repl-backlog-size 64mb"] };
const KEYS = 40;

function run(options: object): Promise<Script> {
  return spawnScript(new URL("./stream.fixture.ts", import.meta.url), {
    args: [JSON.stringify(options)],
  });
}

/** Counters, lists and transactions over many slots, until stopped. */
async function writeUntil(server: RedisServer, stopped: () => boolean): Promise<void> {
  for (let round = 0; !stopped(); round++) {
    const [a, b] = [round % KEYS, (round * 7) % KEYS];
    await Promise.all([
      server.command("INCR", `n${a}`),
      server.command("LPUSH", `list${b}`, String(round)),
      server.command("APPEND", `text${a}`, `${round},`),
      server.command("MSET", `m${a}`, String(round), `m${b}`, String(round)),
      server.command("MULTI"),
      server.command("INCRBY", `x${a}`, "3"),
      server.command("DECRBY", `y${b}`, "3"),
      server.command("EXEC"),
      server.command("RPUSH", `from${a}`, String(round)),
      ...(round % 20 === 0 ? [server.command("RPOPLPUSH", `from${a}`, `to${b}`)] : []),
    ]);
    // Not faster than a busy machine can follow.
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

async function everything(read: (...argv: string[]) => Promise<unknown>): Promise<unknown> {
  const found: Record<string, unknown> = {};
  for (let i = 0; i < KEYS; i++) {
    for (const name of ["n", "text", "m", "x", "y"]) {
      found[`${name}${i}`] = String(await read("GET", `${name}${i}`));
    }
    for (const name of ["list", "from", "to"]) {
      found[`${name}${i}`] = String(await read("LRANGE", `${name}${i}`, "0", "-1"));
    }
  }
  return found;
}

const fromServer = (server: RedisServer) =>
  everything((...argv) => server.command(...(argv as [string])));
const fromCluster = (cluster: RedisCluster) =>
  everything(async (...argv) =>
    (await cluster.nodeOf(argv[1] ?? "")).command(...(argv as [string])),
  );

test("a standalone source arrives in a cluster exactly once, however often the syncer is killed", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startCluster({ masters: 3 });
  for (let i = 0; i < 200; i++) await source.command("SET", `k${i}`, String(i), "EX", "1000");
  const options = { from: source.url, to: target.url, name: "killed" };
  let script = await run(options);
  await script.waitForLine(/status COMMANDRUNNING/, { withinMs: 30_000 });
  const fulls = await infoNumber(source, "sync_full");
  let stopped = false;
  const writing = writeUntil(source, () => stopped);
  for (let kill = 0; kill < 4; kill++) {
    const count = async () => Number(await (await target.nodeOf("n1")).command("GET", "n1"));
    const n = await count();
    await eventually(async () => expect(await count()).toBeGreaterThan(n + 3), {
      withinMs: 15_000,
    });
    await script.kill9();
    script = await run(options);
    await script.waitForLine(/status COMMANDRUNNING/, { withinMs: 60_000 });
  }
  stopped = true;
  await writing;
  await eventually(
    async () => expect(await fromCluster(target)).toEqual(await fromServer(source)),
    {
      withinMs: 20_000,
    },
  );
  await script.terminate();
  expect(await infoNumber(source, "sync_full")).toBe(fulls);
  expect(Number(await (await target.nodeOf("k7")).command("PTTL", "k7"))).toBeLessThan(1_000_000);
}, 240_000);

test("a cluster arrives in a standalone server and in another cluster", async () => {
  await using source = await startCluster({ masters: 3, config: SOURCE.config });
  await using single = await startRedis();
  await using cluster = await startCluster({ masters: 2 });
  for (let i = 0; i < 300; i++)
    await (await source.nodeOf(`k${i}`)).command("SET", `k${i}`, String(i));
  const targets = [single.url, cluster.url];
  const tasks = targets.map((to) => new SyncTask({ from: source.url, to }));
  try {
    for (const task of tasks) await task.start();
    for (let i = 0; i < 300; i++) await (await source.nodeOf(`k${i}`)).command("INCR", `k${i}`);
    await eventually(
      async () => {
        for (let i = 0; i < 300; i++) {
          expect(String(await single.command("GET", `k${i}`))).toBe(String(i + 1));
          expect(String(await (await cluster.nodeOf(`k${i}`)).command("GET", `k${i}`))).toBe(
            String(i + 1),
          );
        }
      },
      { withinMs: 60_000 },
    );
  } finally {
    for (const task of tasks) await task.close();
  }
}, 120_000);

test("an older run of a task is refused by every slot of a cluster when a newer one has begun", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startCluster({ masters: 2 });
  const keys = Array.from({ length: 10 }, (_, i) => `n${i}`);
  const count = async () => {
    for (const key of keys) await source.command("INCR", key);
  };
  const options = { from: source.url, to: target.url, name: "twice" };
  const older = await run(options);
  await older.waitForLine(/status COMMANDRUNNING/, { withinMs: 60_000 });
  await count();
  await older.pause();
  const newer = await run(options);
  await newer.waitForLine(/status COMMANDRUNNING/, { withinMs: 60_000 });
  await count();
  await older.resume();
  await older.waitForLine(/failed LEASE_LOST/, { withinMs: 60_000 });
  await count();
  await eventually(
    async () => {
      for (const key of keys) {
        const value = String(await (await target.nodeOf(key)).command("GET", key));
        expect([key, value]).toEqual([key, "3"]);
      }
    },
    { withinMs: 30_000 },
  );
  await newer.terminate();
}, 180_000);

test("functions and scripts of a snapshot reach every master", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startCluster({ masters: 2 });
  const library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
  await source.command("FUNCTION", "LOAD", library);
  await source.command("SET", "k", "v");
  await using task = new SyncTask({ from: source.url, to: target.url, once: true });
  await task.start();
  await task.finished;
  for (const node of target.nodes)
    expect(String(await node.command("FUNCTION", "LIST"))).toContain("lib");
  expect(String(await (await target.nodeOf("k")).command("GET", "k"))).toBe("v");
}, 60_000);

test("a FLUSHALL that is read twice does not take what came after it", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startCluster({ masters: 2 });
  const get = async (key: string) => String(await (await target.nodeOf(key)).command("GET", key));
  await using task = new SyncTask({ from: source.url, to: target.url, name: "flush" });
  task.on("error", () => {});
  await task.start();
  await source.command("SET", "a", "1");
  await eventually(async () => expect(await get("a")).toBe("1"));
  const home = await target.nodeOf("ropeway:sync:{flush}:checkpoint:0");
  const checkpoint = "ropeway:sync:{flush}:checkpoint:0";
  await eventually(async () =>
    expect(String(await home.command("HGET", checkpoint, "offset"))).toBe(
      String(task.progress().offset),
    ),
  );
  const before = (await home.command("HGETALL", checkpoint)) as string[];
  await source.command("FLUSHALL");
  await source.command("INCR", "n");
  await eventually(async () => expect(await get("n")).toBe("1"), { withinMs: 20_000 });
  await task.close();
  // As if the run had been killed before it wrote the checkpoint: slots are ahead of it.
  await home.command("HSET", checkpoint, ...before);
  await using again = new SyncTask({ from: source.url, to: target.url, name: "flush" });
  again.on("error", () => {});
  await again.start();
  await source.command("INCR", "n");
  await eventually(async () => expect(await get("n")).toBe("2"), { withinMs: 20_000 });
  expect(await get("a")).toBe("null");
}, 90_000);

test("a repeated full synchronisation between clusters leaves no key that the source has deleted", async () => {
  await using source = await startCluster({ masters: 3, config: SOURCE.config });
  await using target = await startCluster({ masters: 2 });
  const keys = Array.from({ length: 60 }, (_, i) => `k${i}`);
  for (const key of keys) await (await source.nodeOf(key)).command("SET", key, "v");
  const options = { from: source.url, to: target.url, name: "ghosts", once: true };
  for (const restart of [false, true]) {
    await using task = new SyncTask({ ...options, restart });
    await task.start();
    await task.finished;
    for (const key of keys) {
      const found = Number(await (await target.nodeOf(key)).command("EXISTS", key));
      expect([key, found]).toEqual([key, restart ? 0 : 1]);
    }
    for (const key of keys) await (await source.nodeOf(key)).command("DEL", key);
  }
}, 90_000);

test("a master of the target that restarts from an older file gets again what it lost", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startCluster({ masters: 2 });
  const keys = Array.from({ length: 20 }, (_, i) => `n${i}`);
  await using task = new SyncTask({ from: source.url, to: target.url, name: "rewound" });
  task.on("error", () => {});
  await task.start();
  const count = async (value: string) => {
    for (const key of keys) await source.command("INCR", key);
    await arrives(value);
  };
  const arrives = (value: string) =>
    eventually(
      async () => {
        for (const key of keys) {
          expect([key, String(await (await target.nodeOf(key)).command("GET", key))]).toEqual([
            key,
            value,
          ]);
        }
      },
      { withinMs: 40_000 },
    );
  await count("1");
  for (const node of target.nodes) await node.command("SAVE");
  await count("2");
  const victim = target.nodes[0] as RedisServer;
  await victim.kill9();
  await victim.start();
  await target.settled();
  // One write to one slot of the node is enough to notice what all its slots lost.
  const noticed = await firstOn(target, victim, keys);
  await source.command("APPEND", noticed, "0");
  await eventually(
    async () => {
      for (const key of keys) {
        const value = String(await (await target.nodeOf(key)).command("GET", key));
        expect([key, value]).toEqual([key, key === noticed ? "20" : "2"]);
      }
    },
    { withinMs: 40_000 },
  );
  expect(task.progress().fullResyncs).toBe(1);
}, 120_000);

async function firstOn(
  cluster: RedisCluster,
  node: RedisServer,
  keys: readonly string[],
): Promise<string> {
  for (const key of keys) if ((await cluster.nodeOf(key)).port === node.port) return key;
  throw new Error("no key is on this node");
}

test("a run that lost the history fills a cluster again", async () => {
  await using source = await startRedis({ config: [...SOURCE.config, "repl-timeout 60"] });
  await using target = await startCluster({ masters: 2 });
  await using task = new SyncTask({ from: source.url, to: target.url, name: "again" });
  task.on("error", () => {});
  await task.start();
  const get = async (key: string) => String(await (await target.nodeOf(key)).command("GET", key));
  await source.command("SET", "a", "1");
  await eventually(async () => expect(await get("a")).toBe("1"), { withinMs: 20_000 });
  await source.kill9();
  await source.start(); // another history, and no data
  await source.command("SET", "b", "2");
  await eventually(async () => expect(await get("b")).toBe("2"), { withinMs: 20_000 });
  await eventually(async () => expect(await get("a")).toBe("null"), { withinMs: 20_000 });
  expect(task.progress().fullResyncs).toBe(2);
}, 60_000);

test("a large value that expires soon is copied to a cluster, and expires in time", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startCluster();
  const fields = Array.from({ length: 500 }, (_, i) => [`f${i}`, "x".repeat(50)]).flat();
  await source.command("HSET", "large", ...fields);
  await source.command("EXPIRE", "large", "600");
  await using task = new SyncTask({
    ...{ from: source.url, to: target.url, name: "t", once: true },
    ...{ bigBytes: 8_192, batchBytes: 8_192 },
  });
  await task.start();
  expect(await task.finished).toMatchObject({ phase: "FINISH", errors: 0, reasons: { big: 1 } });
  const owner = await target.nodeOf("large");
  expect(await owner.command("HLEN", "large")).toBe(500);
  const ttl = Number(await owner.command("TTL", "large"));
  expect(ttl).toBeGreaterThan(0);
  expect(ttl).toBeLessThanOrEqual(600);
}, 60_000);
