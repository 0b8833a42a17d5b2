import {
  eventually,
  type RedisServer,
  type Script,
  spawnScript,
  startProxy,
  startRedis,
} from "@ropeway/testkit";
import { expect, test } from "vitest";
import { infoNumber, readGrowing, writeUntil } from "./load-generator.ts";

const SOURCE = { config: ["repl-diskless-sync-delay 0", "repl-backlog-size 64mb"] };

const LONG = { withinMs: 60_000 };

function run(options: object): Promise<Script> {
  return spawnScript(new URL("./stream.fixture.ts", import.meta.url), {
    args: [JSON.stringify(options)],
  });
}

async function caughtUp(source: RedisServer, target: RedisServer): Promise<void> {
  await eventually(
    async () => expect(await readGrowing(target)).toEqual(await readGrowing(source)),
    { withinMs: 15_000 },
  );
}

test("counters, lists and transactions are equal after the syncer was killed many times", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  const options = { from: source.url, to: target.url, name: "killed" };
  let script = await run(options);
  await script.waitForLine(/status COMMANDRUNNING/, LONG);
  const fulls = await infoNumber(source, "sync_full");
  let stopped = false;
  const writing = writeUntil(source, () => stopped);
  for (let kill = 0; kill < 6; kill++) {
    const n = Number(await target.command("GET", "n"));
    await eventually(
      async () => expect(Number(await target.command("GET", "n"))).toBeGreaterThan(n + 20),
      { withinMs: 10_000 },
    );
    await script.kill9();
    script = await run(options);
    await script.waitForLine(/status COMMANDRUNNING/, LONG);
  }
  stopped = true;
  expect(await writing).toBeGreaterThan(100);
  await caughtUp(source, target);
  await script.terminate();
  expect(await infoNumber(source, "sync_full")).toBe(fulls);
  expect(await infoNumber(source, "sync_partial_ok")).toBeGreaterThanOrEqual(6);
}, 180_000);

test("a cut between syncer and target, or source and syncer, changes nothing", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using before = await startProxy(source);
  await using behind = await startProxy(target);
  const script = await run({
    from: before.url,
    to: behind.url,
    name: "cut",
    mode: "increment",
    connectTimeoutMs: 1000,
  });
  await script.waitForLine(/status COMMANDRUNNING/, LONG);
  let stopped = false;
  const writing = writeUntil(source, () => stopped);
  for (let cut = 0; cut < 20; cut++) {
    const n = Number(await target.command("GET", "n"));
    await eventually(
      async () => expect(Number(await target.command("GET", "n"))).toBeGreaterThan(n + 5),
      { withinMs: 10_000 },
    );
    if (cut % 3 === 0) before.cut();
    else behind.cut();
  }
  stopped = true;
  await writing;
  await caughtUp(source, target);
  await script.terminate();
}, 180_000);

test("an older run of a task is refused by the target when a newer one has begun", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  const options = { from: source.url, to: target.url, name: "twice" };
  const older = await run(options);
  await older.waitForLine(/status COMMANDRUNNING/, LONG);
  await older.pause();
  const newer = await run(options);
  await newer.waitForLine(/status COMMANDRUNNING/, LONG);
  for (let i = 0; i < 50; i++) await source.command("INCR", "n");
  await older.resume();
  await older.waitForLine(/failed LEASE_LOST/, LONG);
  for (let i = 0; i < 50; i++) await source.command("INCR", "n");
  await eventually(async () => expect(String(await target.command("GET", "n"))).toBe("100"));
  await newer.terminate();
}, 180_000);
