import { eventually, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { checkpointKey } from "../src/keys.ts";
import { SyncTask } from "../src/task.ts";
import { verify } from "../src/verify/verify.ts";

const SOURCE = { config: ["repl-diskless-sync-delay 0"] };

test("every kind of difference is named and repaired, and the task goes on", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  for (const key of ["value", "type", "missing", "later", "same"]) {
    await source.command("SET", key, "v", "EX", "1000");
  }
  await source.command("MSET", "forever", "v", "expires", "v");
  await source.command("EXPIRE", "expires", "1000");
  await source.command("HSET", "fields", "a", "1", "b", "2");
  const ends = { from: source.url, to: target.url, name: "differences" };
  const once = async () => {
    await using task = new SyncTask({ ...ends, once: true });
    await task.start();
    await task.finished;
  };
  await once();
  await target.command("SET", "value", "other", "KEEPTTL");
  await target.command("DEL", "type", "missing");
  await target.command("RPUSH", "type", "v");
  await target.command("EXPIRE", "later", "1010");
  await target.command("EXPIRE", "forever", "1000");
  await target.command("PERSIST", "expires");
  await target.command("HSET", "fields", "b", "3");
  await target.command("SET", "extra", "v");
  const found = await verify({ ...ends, repair: true });
  const reasons = found.differences.map(({ key, reason }) => `${key}: ${reason}`).sort();
  expect(reasons).toEqual([
    "expires: ttl",
    "extra: extra",
    "fields: value",
    "forever: ttl",
    "later: ttl",
    "missing: missing",
    "type: type",
    "value: value",
  ]);
  expect(found).toMatchObject({ keys: 8, equal: 1, different: 8, repaired: 8, undecided: 0 });
  await source.command("INCR", "after");
  await once();
  expect(await verify(ends)).toMatchObject({ keys: 9, different: 0, undecided: 0 });
  expect(Number(await target.command("TTL", "later"))).toBeLessThanOrEqual(1000);
});

test("nothing is repaired while the task is behind, because it would apply its changes again", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  const ends = { from: source.url, to: target.url, name: "behind" };
  const once = async () => {
    await using task = new SyncTask({ ...ends, once: true });
    await task.start();
    await task.finished;
  };
  await source.command("SET", "n", "1");
  await once();
  for (let i = 0; i < 5; i++) await source.command("INCR", "n");
  const found = await verify({ ...ends, repair: true });
  expect(found).toMatchObject({ different: 1, repaired: 0, behind: true });
  await once();
  expect(await target.command("GET", "n")).toBe("6");
  await target.command("SET", "n", "7");
  expect(await verify({ ...ends, repair: true })).toMatchObject({ repaired: 1, behind: false });
}, 60_000);

test("a repair finds the task by the source that it copies, and asks for a name if there are several", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  const ends = { from: source.url, to: target.url };
  const once = async (name: string) => {
    await using task = new SyncTask({ ...ends, name, once: true });
    await task.start();
    await task.finished;
  };
  await source.command("SET", "n", "1");
  await once("named");
  for (let i = 0; i < 5; i++) await source.command("INCR", "n");
  const found = await verify({ ...ends, repair: true });
  expect(found).toMatchObject({ different: 1, repaired: 0, behind: true });
  await expect(verify({ ...ends, name: "misspelt", repair: true })).rejects.toMatchObject({
    code: "INVALID_OPTION",
    details: { option: "name" },
  });
  await once("named");
  expect(await target.command("GET", "n")).toBe("6");
  await target.command("SET", "n", "7");
  expect(await verify({ ...ends, repair: true })).toMatchObject({ repaired: 1, behind: false });
  await once("other");
  await expect(verify({ ...ends, repair: true })).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringContaining("named, other"),
  });
  expect(await verify({ ...ends, name: "other" })).toMatchObject({ different: 0 });
}, 60_000);

test("nothing is repaired while the task loads its snapshot", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  const ends = { from: source.url, to: target.url, name: "loading" };
  await source.command("SET", "n", "1");
  await using task = new SyncTask({ ...ends, once: true });
  await task.start();
  await task.finished;
  await target.command("HSET", checkpointKey("loading", 0), "phase", "load"); // as a killed run leaves it
  await target.command("SET", "n", "7");
  const found = await verify({ ...ends, repair: true });
  expect(found).toMatchObject({ different: 1, repaired: 0, behind: true });
}, 60_000);

test("keys are repaired while all of them change all the time", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  const ends = { from: source.url, to: target.url, name: "busy" };
  const keys = Array.from({ length: 200 }, (_, i) => `n${i}`);
  for (const key of keys) await source.command("SET", key, "1");
  await using task = new SyncTask(ends);
  task.on("error", () => {});
  await task.start();
  await eventually(async () => expect(await target.command("DBSIZE")).toBeGreaterThan(200));
  for (const key of keys) await target.command("INCRBY", key, "1000000");
  const stop = new AbortController();
  const writing = (async () => {
    for (let i = 0; !stop.signal.aborted; i++) await source.command("INCR", `n${i % 200}`);
  })();
  const found = await verify({ ...ends, repair: true }).finally(() => stop.abort());
  await writing;
  expect(found).toMatchObject({ keys: 200, different: 200, repaired: 200, undecided: 0 });
  await eventually(async () => expect(await verify(ends)).toMatchObject({ different: 0 }));
}, 60_000);
