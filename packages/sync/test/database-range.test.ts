// Databases that the target does not have: a SELECT that fails would leave the commands behind it in another database.
import { eventually, type RedisServer, startCluster, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { SyncTask } from "../src/task.ts";
import { PlainRedis } from "./plain-redis.ts";

const SOURCE = { config: ["repl-diskless-sync-delay 0", "databases 32"] };

/** A task that follows the source; database 0 has a key. */
async function follow(source: RedisServer, to: string): Promise<SyncTask> {
  await source.command("SET", "k", "zero");
  const task = new SyncTask({ from: source.url, to, maxErrors: 100 });
  task.on("error", () => {});
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
  return task;
}

test.each([["SET", "k", "twenty"], ["FLUSHDB"]])(
  "a change in a database that the target does not have ends the task: %s",
  async (...command) => {
    await using source = await startRedis(SOURCE);
    await using target = await startRedis();
    await using task = await follow(source, target.url);
    await using client = await PlainRedis.open(source);
    await client.send("SELECT", 20);
    await client.send(...command);
    await expect(task.finished).rejects.toThrow(/database 20.*has 16 databases/);
    expect(await target.command("GET", "k")).toBe("zero");
  },
);

test("SWAPDB with a database that the target does not have ends the task", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using task = await follow(source, target.url);
  await source.command("SWAPDB", "0", "20");
  await expect(task.finished).rejects.toThrow(/database 20/);
  expect(await target.command("GET", "k")).toBe("zero");
});

test("a snapshot or a map with a database that the target does not have ends the task", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await using client = await PlainRedis.open(source);
  await client.send("SELECT", 20);
  await client.send("SET", "k", "twenty");
  for (const dbMap of [undefined, { 20: 99 }]) {
    await using task = new SyncTask({ from: source.url, to: target.url, dbMap, maxErrors: 100 });
    task.on("error", () => {});
    await task.start();
    await expect(task.finished).rejects.toMatchObject({ code: "COMMAND_REFUSED" });
  }
  expect(await target.command("EXISTS", "k")).toBe(0);
});

test("the databases of a target that does not say how many it has are counted", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis({
    config: ['rename-command CONFIG ""', "databases 21"],
  });
  await using task = await follow(source, target.url);
  await using client = await PlainRedis.open(source);
  await using reader = await PlainRedis.open(target);
  await client.send("SELECT", 20);
  await client.send("SET", "k", "twenty");
  await reader.send("SELECT", 20);
  await eventually(async () => expect(String(await reader.send("GET", "k"))).toBe("twenty"));
  await client.send("SELECT", 21);
  await client.send("SET", "k", "more");
  await expect(task.finished).rejects.toThrow(/has 21 databases/);
});

test.each([["SET", "k", "one"], ["FLUSHDB"]])(
  "a cluster has one database, also for changes: %s",
  async (...command) => {
    await using source = await startRedis(SOURCE);
    await using target = await startCluster({ masters: 3 });
    await using task = await follow(source, target.url);
    await using client = await PlainRedis.open(source);
    await client.send("SELECT", 1);
    await client.send(...command);
    await expect(task.finished).rejects.toThrow(/database 1.*only database 0/);
    expect(await (await target.nodeOf("k")).command("GET", "k")).toBe("zero");
  },
  60_000,
);
