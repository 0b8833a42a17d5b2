import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { attempts, inFlight } from "../src/keys.ts";
import { beat, move, settle } from "../src/store/scripts.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();
const { redis, server } = stage;

test("a heartbeat forgets dead nodes, and its index expires", async () => {
  await server.command("ZADD", "index", "1", "dead");
  await redis.run(beat, ["index", "works"], [3_000, "w", 1, "n1", "{}"]);
  expect(await server.command("ZRANGE", "index", "0", "-1")).toEqual(["n1"]);
  for (const key of ["index", "works"]) {
    expect(await server.command("PTTL", key)).toBeGreaterThan(0);
  }
});

test("a call that has ended is no longer counted among those that were put back", async () => {
  const list = inFlight("request", "w");
  const counts = attempts("request");
  await server.command("HSET", counts, createHash("sha1").update("call").digest("hex"), "2");
  await server.command("LPUSH", list, "call");
  const args = ["call", "response", "LPUSH", 120];
  expect(await redis.run(settle, [list, counts, "reply"], args)).toBe(1);
  expect(await server.command("EXISTS", list, counts)).toBe(0);
  expect(await redis.run(settle, [list, counts, "reply"], args)).toBe(0);
  expect(await server.command("LLEN", "reply")).toBe(1);
  expect(await server.command("PTTL", "reply")).toBeGreaterThan(0);
});

test("a session list that a call is moved to expires", async () => {
  await server.command("LPUSH", "from", "old");
  expect(await redis.run(move, ["from", "to"], [60_000, "old", "new", "gone", "gone"])).toEqual([
    1, 0,
  ]);
  expect(await server.command("LRANGE", "to", "0", "-1")).toEqual(["new"]);
  expect(await server.command("PTTL", "to")).toBeGreaterThan(0);
});
