import { type RedisCluster, startCluster, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { check } from "../src/preflight/check.ts";
import { SyncTask } from "../src/task.ts";
import { verify } from "../src/verify/verify.ts";

const SOURCE = { config: ["repl-diskless-sync-delay 0"] };
const KEYS = 30;

async function put(cluster: RedisCluster, key: string, ...words: string[]): Promise<void> {
  const [name = "SET", ...rest] = words;
  await (await cluster.nodeOf(key)).command(name, key, ...rest);
}

test("a server and a cluster are compared and repaired while a task follows", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startCluster({ masters: 3 });
  for (let i = 0; i < KEYS; i++) await source.command("HSET", `k${i}`, "f", String(i));
  const ends = { from: source.url, to: target.url, name: "compared" };
  await using task = new SyncTask(ends);
  task.on("error", () => {});
  await task.start();
  await expect.poll(() => task.status, { timeout: 30_000 }).toBe("COMMANDRUNNING");
  await source.command("SET", "late", "1");
  await expect
    .poll(async () => (await target.nodeOf("late")).command("GET", "late"), { timeout: 30_000 })
    .toBe("1");
  expect(await verify(ends)).toMatchObject({ keys: KEYS + 1, equal: KEYS + 1, different: 0 });
  await put(target, "k3", "HSET", "f", "other");
  await put(target, "k4", "DEL");
  await put(target, "extra", "SET", "1");
  const found = await verify(ends);
  const reasons = found.differences.map(({ key, reason }) => `${key} ${reason}`).sort();
  expect(reasons).toEqual(["extra extra", "k3 value", "k4 missing"]);
  expect(await verify({ ...ends, repair: true })).toMatchObject({ different: 3, repaired: 3 });
  expect(await verify(ends)).toMatchObject({ different: 0, undecided: 0, anchored: true });
  await source.command("HSET", "k4", "f", "new");
  await expect
    .poll(async () => (await target.nodeOf("k4")).command("HGET", "k4", "f"), { timeout: 30_000 })
    .toBe("new");
});

test("a cluster and a server are compared, and every master of the cluster is checked", async () => {
  await using source = await startCluster({ masters: 3 });
  await using target = await startRedis();
  for (let i = 0; i < KEYS; i++) await put(source, `k${i}`, "SET", String(i));
  await using task = new SyncTask({ from: source.url, to: target.url, mode: "stock", scan: true });
  await task.start();
  await task.finished;
  const ends = { from: source.url, to: target.url };
  expect(await verify(ends)).toMatchObject({ keys: KEYS, different: 0, anchored: false });
  await target.command("DEL", "k1");
  await target.command("SET", "k2", "2", "EX", "1000");
  const repaired = await verify({ ...ends, repair: true });
  expect(repaired.differences.map(({ reason }) => reason).sort()).toEqual(["missing", "ttl"]);
  expect(await verify(ends)).toMatchObject({ different: 0 });
  const there = await check(ends);
  expect(there.findings.filter(({ what }) => what === "source connection")).toHaveLength(3);
  const back = await check({ from: target.url, to: source.url });
  expect(back.findings.filter(({ what }) => what === "target data")).toHaveLength(3);
  expect(back.findings.find(({ what }) => what === "target writes")).toBeUndefined();
});

test("a file cannot be compared", async () => {
  await using target = await startRedis();
  await expect(verify({ from: "file:dump.rdb", to: target.url })).rejects.toMatchObject({
    code: "INVALID_OPTION",
  });
});
