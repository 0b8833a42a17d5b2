// States between two scripts, where no caller can be stopped. The tests call the scripts directly.
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { beforeEach, expect, test } from "vitest";
import { MergeQueue } from "../src/index.ts";
import { QueueStore } from "../src/store/queue-store.ts";

const { server, redis } = await redisForFile();
const queue = new MergeQueue(redis, { prefix: "p" });

beforeEach(() => server.command("FLUSHALL"));

const store = new QueueStore(redis, queue.options);
const look = (most: number, reserveMs: number) => store.due({ most, reserveMs });
const take = (reserved: string, token: string) =>
  store.get({
    ...{ key: "k", token, batchId: "msg_1", resume: true, leaseMs: 60_000 },
    ...{ maxItems: 10, maxBytes: 1_000_000, reservation: { reserved, score: "1.000" } },
  });

test("a due key is reserved for one look, and comes again when nobody locks it", async () => {
  await queue.push("k", "a", { at: 1000 });
  const first = await look(10, 60_000);
  expect(first.keys).toEqual([{ key: "k", score: "1" }]);
  const second = await look(10, 60_000);
  expect(second.keys).toEqual([]);
  expect(second.nextMs).toBeGreaterThan(50_000);
  await server.command("ZADD", "p:timer", "1", "k"); // the reservation is over
  expect((await look(10, 60_000)).keys).toHaveLength(1);
});

test("a key that is postponed between being found and being locked is not fired early", async () => {
  await queue.push("k", "a", { at: 1000 });
  const { reserved } = await look(10, 60_000);
  const [seconds] = (await server.command("TIME")) as string[];
  const tomorrow = Number(seconds) + 86_400;
  await queue.push("k", "b", { at: tomorrow * 1_000, update: "always" });
  expect(await take(reserved, "t1")).toEqual({ status: "moved" });
  expect(await server.command("EXISTS", "p:queue:k:locker")).toBe(0);
  expect(Number(await server.command("ZSCORE", "p:timer", "k"))).toBe(tomorrow);
});

test("a key that another reserved meanwhile is left to it", async () => {
  await queue.push("k", "a", { at: 1000 });
  const { reserved } = await look(10, 60_000);
  await server.command("ZADD", "p:timer", "1", "k"); // that reservation ended
  const other = await look(10, 90_000);
  expect(await take(reserved, "t1")).toEqual({ status: "moved" });
  expect(await take(other.reserved, "t2")).toMatchObject({ status: "ok", attempt: 1 });
});

test("a key that was made due earlier meanwhile is taken all the same", async () => {
  await queue.push("k", "a", { at: 1000 });
  const { reserved } = await look(10, 60_000);
  await queue.push("k", "b", { at: 2000, update: "always" });
  expect(await take(reserved, "t1")).toMatchObject({ status: "ok" });
});

test("a look takes no more keys than it was asked for, the oldest first", async () => {
  for (let i = 0; i < 5; i++) await queue.push(`k${i}`, "x", { at: (10 - i) * 1_000 });
  expect((await look(2, 60_000)).keys.map(({ key }) => key)).toEqual(["k4", "k3"]);
  await server.command("SADD", "p:paused:keys", "k2");
  expect((await look(2, 60_000)).keys.map(({ key }) => key)).toEqual(["k1", "k0"]);
});

test.each(["one", "longer than the one that it replaces"])(
  "a body that another program has replaced by %j leaves the other bodies as they are",
  async (body) => {
    for (const text of ["1", "22", "333"]) await queue.push("k", text);
    await server.command("LSET", queue.keys.queue("k"), "1", body);
    const batch = await queue.get("k", { leaseMs: 60_000 });
    expect(batch?.items.map((item) => String(item.body))).toEqual(["1", body, "333"]);
  },
);

test("bodies stay whole if another program takes one and pushes another of the same size", async () => {
  for (const text of ["1", "22"]) await queue.push("k", text);
  await server.command("LTRIM", queue.keys.queue("k"), "1", "-1");
  await server.command("RPUSH", queue.keys.queue("k"), "3");
  const batch = await queue.get("k", { leaseMs: 60_000 });
  expect(batch?.items.map((item) => String(item.body))).toEqual(["22", "3"]);
});

test.each([
  ["batch", "abc"],
  ["batch", "1.5"],
  ["batch", "-1"],
  ["replayed", "abc"],
])("a key whose state has the foreign %s %j is still delivered", async (field, value) => {
  for (const text of ["1", "22"]) await queue.push("k", text);
  await server.command("HSET", `${queue.keys.queue("k")}:state`, field, value);
  const batch = await queue.get("k", { leaseMs: 60_000 });
  expect(batch?.items.map((item) => String(item.body)).slice(-1)).toEqual(["22"]);
  expect(await queue.complete("k", batch?.token ?? "")).toBe(0);
});

test("a head of several lines, as another program may write it, leaves the other heads where they are", async () => {
  await server.command("RPUSH", "p:queue:k", "a", "b", "c");
  await server.command("RPUSH", "p:queue:k:items", "x 1 1 -", "y\ny 2 1 -", "z 3 1 - text/plain");
  await server.command("ZADD", "p:timer", "1", "k");
  const batch = await queue.get("k", { leaseMs: 60_000 });
  const seen = batch?.items.map(({ id, body, contentType }) => [id, String(body), contentType]);
  expect(seen).toEqual([
    ["x", "a", undefined],
    ["y\ny", "b", undefined],
    ["z", "c", "text/plain"],
  ]);
});
