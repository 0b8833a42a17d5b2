import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { beforeEach, expect, test } from "vitest";
import { Dispatcher, Inspector, keyOf, MergeQueue, type Page } from "../src/index.ts";

const { server, redis } = await redisForFile();
const queue = new MergeQueue(redis, { prefix: "p" });
const inspector = new Inspector(queue);

beforeEach(() => server.command("FLUSHALL"));

async function pages<T>(page: (cursor: string) => Promise<Page<T>>): Promise<readonly T[][]> {
  const all: T[][] = [];
  let cursor: string | undefined = "0";
  while (cursor !== undefined) {
    const next: Page<T> = await page(cursor);
    all.push([...next.entries]);
    cursor = next.cursor;
  }
  return all;
}

test("keys are listed page by page, soonest first, with what is known of them", async () => {
  for (const n of [3, 1, 5, 2, 4]) {
    await queue.push(`k${n}`, "x", { ontime: 4_000_000_000 + n, data: { n: String(n) } });
  }
  const listed = await pages((cursor) => inspector.list({ cursor, limit: 2 }));
  expect(listed.map((page) => page.map(({ key }) => key))).toEqual([
    ["k1", "k2"],
    ["k3", "k4"],
    ["k5"],
  ]);
  expect(listed[0]?.[0]).toMatchObject({
    ontime: 4_000_000_001,
    items: 1,
    state: "waiting",
    attempts: 0,
    data: { n: "1" },
  });
});

test("a search is for the text as it is, whatever characters it has", async () => {
  for (const key of ["a*b", "aXb", "a?b", "[ab]", "a\\b"]) await queue.push(key, "x");
  const found = async (search: string) =>
    (await pages((cursor) => inspector.list({ cursor, search }))).flat().map(({ key }) => key);
  for (const key of ["a*b", "a?b", "[ab]", "a\\b"]) expect(await found(key)).toEqual([key]);
  expect(await found("nothing")).toEqual([]);
});

test("peeking shows the oldest items and touches nothing", async () => {
  await queue.pushAll(
    "k",
    ["1", "2", "3"].map((body) => ({ body, ontime: 4_000_000_000 })),
  );
  const before = await server.command("LRANGE", queue.keys.queue("k"), 0, -1);
  const peeked = await inspector.peek("k", 2);
  expect(peeked.oldest.map(({ body }) => String(body))).toEqual(["1", "2"]);
  expect(peeked.items).toBe(3);
  expect(await server.command("LRANGE", queue.keys.queue("k"), 0, -1)).toEqual(before);
  expect(await inspector.peek("nothing")).toMatchObject({ items: 0, oldest: [] });
});

test("dead letters are listed page by page, newest first, of all keys or of one", async () => {
  await using _dispatcher = await Dispatcher.start(queue, async () => ({
    kind: "dead",
    reason: "no",
  }));
  for (let i = 0; i < 5; i++) {
    await queue.push(`k${i % 2}`, String(i));
    await eventually(async () => expect((await inspector.stats()).deadLetters).toBe(i + 1));
  }
  const listed = await pages((cursor) => inspector.letters({ cursor, limit: 2 }));
  expect(listed.map((page) => page.length)).toEqual([2, 2, 1]);
  const times = listed.flat().map(({ at }) => at);
  expect(times).toEqual([...times].sort((a, b) => b - a));
  const ofOne = await pages((cursor) => inspector.letters({ cursor, limit: 2, key: "k1" }));
  expect(ofOne.flat().map(({ key }) => key)).toEqual(["k1", "k1"]);
});

test("the keys of a single target are its own, not those of a longer merge key", async () => {
  const target = (mergeKey: string) => ({ mergeKey, method: "POST", url: "http://a.test/" });
  for (const mergeKey of ["-x", "-x", "-xy", "-x http://a.test/ POST"]) {
    await queue.push(keyOf(target(mergeKey), `id${Math.random()}`), "1");
  }
  expect(await inspector.keysOf(target("-x"))).toHaveLength(2);
  expect(await inspector.keysOf(target("-xy"))).toHaveLength(1);
  expect(await inspector.keysOf(target("-"))).toHaveLength(0);
});
