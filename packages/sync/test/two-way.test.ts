import { eventually, type RedisServer, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import type { SyncOptions } from "../src/options.ts";
import { SyncTask } from "../src/task.ts";

const SOURCE = { config: ["repl-diskless-sync-delay 0"] };
const KEYS = 200;

function tasks(one: RedisServer, other: RedisServer) {
  const common = { twoWay: true } as const;
  const there = { ...common, from: one.url, to: other.url, name: "there" } as const;
  const back = {
    ...common,
    from: other.url,
    to: one.url,
    name: "back",
    mode: "increment",
  } as const;
  return { there, back };
}

async function once(options: SyncOptions): Promise<void> {
  await using task = new SyncTask({ ...options, once: true });
  await task.start();
  await task.finished;
}

async function counts(server: RedisServer): Promise<number[]> {
  const keys = Array.from({ length: KEYS }, (_, i) => `n${i}`);
  return ((await server.command("MGET", ...keys)) as unknown[]).map(Number);
}

test("changes at both ends of keys that one end lacked are all kept", async () => {
  await using one = await startRedis(SOURCE);
  await using other = await startRedis(SOURCE);
  const { there, back } = tasks(one, other);
  await once(there);
  await once(back);
  const increase = `for i = 0, ${KEYS - 1} do redis.call("INCR", "n" .. i) end`;
  await one.command("EVAL", increase, "0");
  const going = once(there);
  await eventually(async () => expect(await other.command("EXISTS", "n0")).toBe(1), { everyMs: 1 });
  await other.command("EVAL", increase, "0");
  await going;
  await once(back);
  const all = Array.from({ length: KEYS }, () => 2);
  expect(await counts(other)).toEqual(all);
  expect(await counts(one)).toEqual(all);
});

test("a repeated full synchronisation keeps the keys that clients wrote at the other end", async () => {
  await using one = await startRedis(SOURCE);
  await using other = await startRedis(SOURCE);
  const { there, back } = tasks(one, other);
  await one.command("SET", "a", "1");
  await once(there);
  await once(back);
  await other.command("SET", "written-there", "1");
  await once({ ...there, restart: true });
  expect(await other.command("EXISTS", "a", "written-there")).toBe(2);
  await once(back);
  expect(await one.command("EXISTS", "a", "written-there")).toBe(2);
});
