import { eventually, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { SyncTask } from "../src/task.ts";
import { verify } from "../src/verify/verify.ts";

test("ttlShiftMs is added to the expiries of the snapshot, of the stream and of keys that are read again", async () => {
  await using source = await startRedis({ config: ["repl-diskless-sync-delay 0"] });
  await using target = await startRedis();
  const ttlShiftMs = 10_000_000;
  const ends = { from: source.url, to: target.url, name: "shift", ttlShiftMs };
  await source.command("SET", "snapshot", "v", "EX", "1000");
  await source.command("SET", "renewed", "v", "EX", "1000");
  const run = async () => {
    await using task = new SyncTask({ ...ends, once: true });
    await task.start();
    expect(await task.finished).toMatchObject({ errors: 0 });
  };
  await run();
  await source.command("SET", "px", "v", "PX", "1000000");
  await source.command("SETEX", "setex", "1000", "v");
  await source.command("SET", "expire", "v");
  await source.command("EXPIRE", "expire", "1000");
  await source.command("SET", "getex", "v");
  await source.command("GETEX", "getex", "EX", "1000");
  await source.command("APPEND", "renewed", "w"); // the target has lost it, so it is read again
  await source.command("SET", "stays", "v");
  await target.command("DEL", "renewed");
  await run();
  for (const key of ["snapshot", "renewed", "px", "setex", "expire", "getex"]) {
    const ttl = Number(await target.command("TTL", key));
    expect.soft(ttl, key).toBeGreaterThan(10_000);
    expect.soft(ttl, key).toBeLessThanOrEqual(11_000);
  }
  expect(await target.command("TTL", "stays")).toBe(-1);
  expect(await verify(ends)).toMatchObject({ keys: 7, different: 0 });
  await target.command("EXPIRE", "px", "5");
  expect(await verify({ ...ends, repair: true })).toMatchObject({ different: 1, repaired: 1 });
  await eventually(async () => expect(await verify(ends)).toMatchObject({ different: 0 }));
}, 60_000);

test("ttlShiftMs is added to the expiries of hash fields", async () => {
  await using source = await startRedis({
    version: "redis-8.0",
    config: ["repl-diskless-sync-delay 0"],
  });
  await using target = await startRedis({ version: "redis-8.0" });
  const ends = { from: source.url, to: target.url, name: "fields", ttlShiftMs: 10_000_000 };
  const hash = async (key: string) => {
    await source.command("HSET", key, "f", "v", "g", "w");
    await source.command("HEXPIRE", key, "1000", "FIELDS", "1", "f");
  };
  const run = async () => {
    await using task = new SyncTask({ ...ends, once: true });
    await task.start();
    expect(await task.finished).toMatchObject({ errors: 0 });
  };
  await hash("snapshot");
  await run();
  await hash("stream");
  await source.command("HSETEX", "hsetex", "EX", "1000", "FIELDS", "1", "f", "v");
  await source.command("HSET", "hsetex", "g", "w");
  await source.command("COPY", "snapshot", "copied");
  await run();
  for (const key of ["snapshot", "stream", "hsetex", "copied"]) {
    const [f, g] = (await target.command("HTTL", key, "FIELDS", "2", "f", "g")) as number[];
    expect.soft(f, key).toBeGreaterThan(10_000);
    expect.soft(f, key).toBeLessThanOrEqual(11_000);
    expect.soft(g, key).toBe(-1);
  }
  expect(await verify(ends)).toMatchObject({ keys: 4, different: 0 });
}, 60_000);
