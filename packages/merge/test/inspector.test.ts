import type { Page } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { beforeEach, expect, test } from "vitest";
import {
  AddressGuard,
  DeadLetters,
  Dispatcher,
  EndpointQueue,
  Inspector,
  keyOf,
  MergeQueue,
} from "../src/index.ts";

const { server, redis } = await redisForFile();
const queue = new MergeQueue(redis, { prefix: "p" });
const inspector = new Inspector(queue);
const letters = new DeadLetters(queue);

beforeEach(() => server.command("FLUSHALL"));

async function pages<T>(page: (cursor: string) => Promise<Page<T>>): Promise<readonly T[][]> {
  const all: T[][] = [];
  let cursor: string | undefined = "0";
  while (cursor !== undefined) {
    const next: Page<T> = await page(cursor);
    all.push([...next.items]);
    cursor = next.cursor;
  }
  return all;
}

test("keys are listed page by page, soonest first, with what is known of them", async () => {
  for (const n of [3, 1, 5, 2, 4]) {
    await queue.push(`k${n}`, "x", { at: (4_000_000_000 + n) * 1_000, data: { n: String(n) } });
  }
  const listed = await pages((cursor) => inspector.list({ cursor, limit: 2 }));
  expect(listed.map((page) => page.map(({ key }) => key))).toEqual([
    ["k1", "k2"],
    ["k3", "k4"],
    ["k5"],
  ]);
  expect(listed[0]?.[0]).toMatchObject({
    at: 4000000001000,
    items: 1,
    state: "waiting",
    attempts: 0,
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
    ["1", "2", "3"].map((body) => ({ body, at: 4000000000000 })),
  );
  const before = await server.command("LRANGE", queue.keys.queue("k"), 0, -1);
  const peeked = await inspector.peek("k", { limit: 2 });
  expect(peeked.oldest.map(({ body }) => String(body))).toEqual(["1", "2"]);
  expect(peeked.items).toBe(3);
  expect(await server.command("LRANGE", queue.keys.queue("k"), 0, -1)).toEqual(before);
  expect(await inspector.peek("nothing")).toMatchObject({ items: 0, oldest: [] });
});

test("dead letters are listed page by page, newest first, of all keys or of one", async () => {
  await using _dispatcher = await new Dispatcher(queue, async () => ({
    kind: "dead",
    reason: "no",
  })).start();
  for (let i = 0; i < 5; i++) {
    await queue.push(`k${i % 2}`, String(i));
    await eventually(async () => expect((await inspector.stats()).deadLetters).toBe(i + 1));
  }
  const listed = await pages((cursor) => letters.list({ cursor, limit: 2 }));
  expect(listed.map((page) => page.length)).toEqual([2, 2, 1]);
  const times = listed.flat().map(({ at }) => at);
  expect(times).toEqual([...times].sort((a, b) => b - a));
  const ofOne = await pages((cursor) => letters.list({ cursor, limit: 2, key: "k1" }));
  expect(ofOne.flat().map(({ key }) => key)).toEqual(["k1", "k1"]);
});

test("the keys of a single destination are its own, not those of a longer merge key", async () => {
  const to = (mergeKey: string) => ({ mergeKey, method: "POST", url: "http://a.test/" });
  for (const mergeKey of ["-x", "-x", "-xy", "-x http://a.test/ POST"]) {
    await queue.push(keyOf(to(mergeKey), `id${Math.random()}`), "1");
  }
  const at = new EndpointQueue(queue, new AddressGuard());
  const count = async (mergeKey: string) => (await at.peek(to(mergeKey))).batches.length;
  expect(await count("-x")).toBe(2);
  expect(await count("-xy")).toBe(1);
  expect(await count("-")).toBe(0);
});

test("a replay or a deletion by a filter touches the letters that match, and no others", async () => {
  const to = (mergeKey: string, url: string) => keyOf({ mergeKey, method: "POST", url }, "");
  const keys = [
    to("busy", "http://a.test/"),
    to("gone", "http://a.test/"),
    to("busy", "http://b.test/"),
  ];
  const dispatcher = await new Dispatcher(queue, async ({ key }) => ({
    ...{ kind: "dead", reason: key.startsWith("gone") ? "it is gone" : "it is busy" },
  })).start();
  for (const [i, key] of keys.entries()) {
    await queue.push(key, "1");
    await eventually(async () => expect((await inspector.stats()).deadLetters).toBe(i + 1));
  }
  await dispatcher.close();
  const left = async () => (await letters.list()).items.map(({ key }) => key).reverse();
  const [first] = (await letters.list({ key: keys[0] ?? "" })).items;
  const none = { letters: 0, items: 0 };
  const one = { letters: 1, items: 1 };
  expect(await letters.replayAll({ until: (first?.at ?? 0) - 1 })).toEqual(none);
  expect(await letters.discardAll({ since: 4_000_000_000_000 })).toEqual(none);
  expect(await letters.replayAll({ url: "http://a.test", reason: "gone" })).toEqual(one);
  expect(await left()).toEqual([keys[0], keys[2]]);
  expect(await inspector.peek(keys[1] ?? "")).toMatchObject({ items: 1 });
  expect(await letters.discardAll({ url: "http://b.test" })).toEqual(one);
  expect(await left()).toEqual([keys[0]]);
  expect(await letters.replayAll({ since: first?.at, until: first?.at })).toEqual(one);
  expect(await left()).toEqual([]);
});

test("the pages of a long key are read in steps, whether or not the sizes of its items are known", async () => {
  const bodies = Array.from({ length: 350 }, (_, i) => `"${"x".repeat(i % 7)}${i}"`);
  for (const sized of [true, false]) {
    const key = `long-${sized}`;
    const later = { at: 4_000_000_000_000 };
    if (sized) {
      await queue.pushAll(
        key,
        bodies.map((body) => ({ body, ...later })),
      );
    } else await server.command("RPUSH", queue.keys.queue(key), ...bodies);
    await server.command("CONFIG", "RESETSTAT");
    const shown: string[] = [];
    for (let cursor: string | undefined = "0"; cursor !== undefined; ) {
      const page = await inspector.peek(key, { cursor, limit: 300, maxBytes: 1_000 });
      expect(page.oldest.reduce((sum, { body }) => sum + body.length, 0)).toBeLessThanOrEqual(
        1_000,
      );
      // The last item of a page may be cut. It is complete on its own page.
      const last = page.oldest.at(-1);
      const isCut = last !== undefined && last.body.length < last.size;
      const whole = isCut ? page.oldest.slice(0, -1) : page.oldest;
      shown.push(...whole.map(({ body }) => String(body)));
      cursor = isCut ? String(shown.length) : page.cursor;
    }
    expect(shown).toEqual(bodies);
    const stats = String(await server.command("INFO", "commandstats"));
    expect(stats).not.toContain("cmdstat_lindex"); // each would walk the list again
    if (sized) expect(Number(/cmdstat_lrange:calls=(\d+)/.exec(stats)?.[1])).toBeLessThan(60);
  }
});
