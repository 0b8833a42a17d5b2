import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { attempts, inFlight } from "../src/keys.ts";
import {
  beat,
  move,
  reclaim,
  settle,
  sweep,
  withdraw,
  withdrawById,
} from "../src/store/scripts.ts";
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

test("a count that another program wrote loses no call of a dead worker", async () => {
  const list = inFlight("request", "w");
  const counts = attempts("request");
  const field = createHash("sha1").update("call").digest("hex");
  await server.command("HSET", counts, field, "no number");
  await server.command("LPUSH", list, "older", "call");
  const keys = ["request", "leases", list, counts, "dead"];
  expect(await redis.run(reclaim, keys, ["w", "RIGHT", 3, 10])).toEqual([2, 0, 0]);
  expect(await server.command("LRANGE", "request", "0", "-1")).toEqual(["call", "older"]);
  expect(await server.command("HGET", counts, field)).toBe("1");
});

test("a session list that a call is moved to expires", async () => {
  await server.command("LPUSH", "from", "old");
  expect(await redis.run(move, ["from", "to"], [60_000, "old", "new", "gone", "gone"])).toEqual([
    1, 0,
  ]);
  expect(await server.command("LRANGE", "to", "0", "-1")).toEqual(["new"]);
  expect(await server.command("PTTL", "to")).toBeGreaterThan(0);
});

const large = (id: number) =>
  `{"dl":${Date.now() - 60_000},"id":"c.${id}","version":"2","params":["${"x".repeat(1_000)}"]}`;

test.each(["RIGHT", "LEFT"] as const)(
  "a search for a call reads no more than so many elements and bytes (%s)",
  async (side) => {
    const texts = Array.from({ length: 100 }, (_, i) => large(i));
    await server.command(side === "RIGHT" ? "LPUSH" : "RPUSH", "list", ...texts);
    const find = (id: number, most: number, bytes: number) =>
      redis.run(withdrawById, ["list"], [`"id":"c.${id}"`, side, most, bytes]);
    expect(await find(70, 60, 1e6)).toBe(0);
    expect(await find(70, 1_000, 10_000)).toBe(0);
    expect(await find(99, 1_000, 50_000)).toBe(0);
    for (const id of [0, 99, 50, 1]) expect(await find(id, 1_000, 1e6)).toBe(1);
    expect(await find(50, 1_000, 1e6)).toBe(0);
    expect(await server.command("LLEN", "list")).toBe(96);
  },
);

test("a sweep reads no more than so many bytes, and goes on the next time", async () => {
  await server.command("LPUSH", "list", ...Array.from({ length: 100 }, (_, i) => large(i)));
  await server.command("ZADD", "index", "1", "list");
  const removed = await redis.run(sweep, ["index", "list"], ["RIGHT", 500, 20_000]);
  expect(removed).toBeGreaterThan(10);
  expect(removed).toBeLessThan(30);
  expect(await server.command("ZCARD", "index")).toBe(1);
  for (let i = 0; i < 10; i++) await redis.run(sweep, ["index", "list"], ["RIGHT", 500, 20_000]);
  expect(await server.command("EXISTS", "list", "index")).toBe(0);
});

test("a call is searched for at both ends of a long list, and not in its middle", async () => {
  const texts = Array.from({ length: 100 }, (_, i) => `call ${i}`);
  await server.command("LPUSH", "list", ...texts);
  const take = (i: number) => redis.run(withdraw, ["list"], [`call ${i}`, 10]);
  for (const i of [0, 9, 99, 91]) expect(await take(i)).toBe(1);
  for (const i of [0, 50]) expect(await take(i)).toBe(0);
  expect(await server.command("LLEN", "list")).toBe(96);
});
