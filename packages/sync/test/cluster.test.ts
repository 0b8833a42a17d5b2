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
