// The scripts that write to the slots of a cluster; a plain server runs them as well.
import { readFile } from "node:fs/promises";
import { type RedisServer, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

async function run(server: RedisServer, name: string, ...args: string[]) {
  const source = await readFile(new URL(`../../lua/${name}.lua`, import.meta.url), "utf8");
  return await server.command("EVAL", source, ...args);
}

/** INCR n at a place of the stream. */
function incr(server: RedisServer, epoch: string, [offset, step]: [string, string]) {
  const place = [offset, step, "0", "", ""];
  return run(server, "apply", "2", "mark", "n", epoch, ...place, "", "", "0", "2", "INCR", "n");
}

test("a slot takes nothing from a run with an older epoch, and every place of the stream once", async () => {
  await using server = await startRedis();
  expect(await incr(server, "1", ["10", "1"])).toEqual(["applied"]);
  expect(await run(server, "claim", "1", "mark", "2", "keep")).toContain("claimed");
  expect(await incr(server, "1", ["20", "1"])).toEqual(["fenced", "2"]);
  expect(await run(server, "claim", "1", "mark", "1", "reset")).toEqual(["fenced", "2"]);
  expect(await run(server, "flush", "1", "mark", "1", "FLUSHALL", "")).toEqual(["fenced", "2"]);
  expect(await server.command("GET", "n")).toBe("1");
  expect(await incr(server, "2", ["10", "1"])).toEqual(["skipped"]);
  expect(await incr(server, "2", ["9", "7"])).toEqual(["skipped"]);
  expect(await incr(server, "2", ["10", "2"])).toEqual(["applied"]);
  expect(await incr(server, "2", ["11", "0"])).toEqual(["applied"]);
  expect(await server.command("GET", "n")).toBe("3");
});

test("the last group of a sequence is applied once, and has the same result again", async () => {
  await using server = await startRedis();
  const group = async (sequence: string, id: string) => {
    const commands = ["2", "INCR", "n", "3", "LPUSH", "n", "x", "2", "INCR", "n", "2", "NONE", "n"];
    const before = ["2", "mark", "n", "1", "", "0", "", "", "", sequence, id, "0"];
    const reply = (await run(server, "apply", ...before, ...commands)) as unknown[];
    return reply.map(String);
  };
  const result = await group("a", "1-1");
  expect(result).toHaveLength(5);
  expect(result[2]).toContain("WRONGTYPE");
  expect(await group("b", "1-2")).toEqual(result);
  expect(await group("a", "1-1")).toEqual(result);
  expect(await server.command("GET", "n")).toBe("4");
  expect(await group("a", "1-3")).toEqual(result);
  expect(await server.command("GET", "n")).toBe("6");
});
