// Pushes that are sent together in one script call.
import { ConnectionLostError, connect, isReply, OutOfMemoryError } from "@ropeway/core";
import { startProxy, startRedis } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { beforeEach, expect, test } from "vitest";
import { MergeQueue, type Pushed } from "../src/index.ts";

const { server, redis } = await redisForFile({ config: ["maxmemory-policy noeviction"] });
const queue = new MergeQueue(redis, { prefix: "p" });

beforeEach(async () => {
  await server.command("FLUSHALL");
  await server.command("CONFIG", "RESETSTAT");
});

const listOf = (key: string) => server.command("LRANGE", `p:queue:${key}`, "0", "-1");

async function scriptCalls(): Promise<number> {
  const stats = String(await server.command("INFO", "commandstats"));
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

/** The code of each error, or the number of items. */
function outcomes(settled: readonly PromiseSettledResult<Pushed>[]): (number | string)[] {
  return settled.map((each) =>
    each.status === "fulfilled" ? each.value.items : String(each.reason.code),
  );
}

test("pushes of one turn travel in few calls, and each caller gets its own result", async () => {
  const ids = Array.from({ length: 300 }, (_, i) => `id-${i}`);
  const at = 4_000_000_000_000;
  const pushed = await Promise.all(
    ids.map((id, i) => queue.push(`k${i % 100}`, `${i}`, { id, at: at + i })),
  );
  expect(pushed.map(({ id }) => id)).toEqual(ids);
  // "once": the first push of a key sets its time.
  expect(pushed.map((each) => each.at)).toEqual(ids.map((_, i) => at + (i % 100)));
  expect(pushed.map(({ items }) => items)).toEqual(ids.map((_, i) => 1 + Math.floor(i / 100)));
  expect(await listOf("k7")).toEqual(["7", "107", "207"]);
  const heads = (await server.command("LRANGE", "p:queue:k7:items", "0", "-1")) as string[];
  expect(heads.map((head) => head.split(" ")[0])).toEqual(["id-7", "id-107", "id-207"]);
  // The first is sent at once, the others in groups of at most 16.
  expect(await scriptCalls()).toBe(20);
});

test("a call that stores several pushes does what they do one by one", async () => {
  const options = { prefix: "p", maxItems: 3, maxBytes: 100, maxWaitMs: 1_000 };
  const small = new MergeQueue(redis, options);
  // As on Redis 6.0, which cannot read several scores at once.
  await server.command("ACL", "SETUSER", "old", "on", ">pw", "~*", "&*", "+@all", "-zmscore");
  await using user = await connect(server.url.replace("redis://", "redis://old:pw@"));
  const old = new MergeQueue(user, options);
  const far = 4_000_000_000_000;
  const steps: [string, string, { at?: number; update?: "always" | "once" }][] = [
    ["a", "1", { at: far }],
    ["b", "1", { at: far }],
    ["a", "2", { at: far + 1_000, update: "always" }],
    ["a", "3", { at: far }],
    ["b", "x".repeat(200), { at: far }],
    ["c", "1", {}],
    ["c", "2", { at: far, update: "always" }],
    ["marked", "2", { at: far + 5_000 }],
  ];
  const keys = ["a", "b", "c", "marked"];
  const run = async (small: MergeQueue, together: boolean) => {
    await server.command("FLUSHALL");
    await server.command("RPUSH", "p:queue:marked", "1"); // another program has a batch of it
    await server.command("ZADD", "p:timer", String(far / 1_000), "marked");
    await server.command("SET", "p:queue:marked:overwrite", "1");
    const pushed: Pushed[] = [];
    const first = small.push("first", "x", { at: far });
    const pushes: Promise<Pushed>[] = [];
    for (const [key, body, more] of steps) {
      pushes.push(small.push(key, body, { id: `${key}${body.length}`, ...more }));
      if (!together) await pushes.at(-1);
    }
    pushed.push(...(await Promise.all(pushes)));
    await first;
    const fired = pushed.map(({ at }) => (at >= far ? at : "soon"));
    const lists = await Promise.all(keys.map(listOf));
    const bytes = await Promise.all(
      keys.map((key) => server.command("HGET", `p:queue:${key}:state`, "bytes")),
    );
    const scores = await Promise.all(
      ["first", "marked"].map((key) => server.command("ZSCORE", "p:timer", key)),
    );
    const markers = await server.command("EXISTS", "p:queue:marked:overwrite");
    return { fired, items: pushed.map(({ items }) => items), lists, bytes, scores, markers };
  };
  const alone = await run(small, false);
  expect(alone).toMatchObject({ scores: ["4000000000", "4000000005"], markers: 0 });
  expect(await run(small, true)).toEqual(alone);
  expect(await run(old, true)).toEqual(alone);
});

test("a push that Redis refuses fails alone and leaves nothing behind", async () => {
  await server.command("SET", "p:queue:list", "no list");
  await server.command("SET", "p:queue:state:state", "no hash");
  await server.command("SET", "p:queue:heads:items", "no list");
  await server.command("HSET", "p:queue:odd:state", "bytes", "many", "batch", "?", "next", "?");
  const keys = ["a", "list", "b", "heads", "c", "list", "odd", "a"];
  const settled = await Promise.allSettled(keys.map((key) => queue.push(key, "x")));
  const refused = "SERVER_REPLY";
  expect(outcomes(settled)).toEqual([1, refused, 1, refused, 1, refused, 1, 2]);
  for (const each of settled) {
    if (each.status === "rejected") expect(isReply(each.reason, "WRONGTYPE")).toBe(true);
  }
  expect(await listOf("a")).toEqual(["x", "x"]);
  expect(await server.command("EXISTS", "p:queue:list:items", "p:queue:heads")).toBe(0);
  expect(await server.command("ZCARD", "p:timer")).toBe(4);
});

test("a Redis without memory refuses each push, and stores those that are repeated later", async () => {
  const push = () => Promise.allSettled(["a", "b", "c"].map((key) => queue.push(key, "x")));
  await server.command("CONFIG", "SET", "maxmemory", "1");
  const refused = await push();
  await server.command("CONFIG", "SET", "maxmemory", "0");
  for (const each of refused) {
    expect(each.status === "rejected" && each.reason).toBeInstanceOf(OutOfMemoryError);
  }
  expect(await server.command("DBSIZE")).toBe(0);
  expect(outcomes(await push())).toEqual([1, 1, 1]);
});

test("a push that fails behind its writes is not stored twice", async () => {
  await server.command("ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@all", "-zadd");
  await using user = await connect(server.url.replace("redis://", "redis://poor:pw@"));
  const poor = new MergeQueue(user, { prefix: "p" });
  const settled = await Promise.allSettled(["a", "b", "c"].map((key) => poor.push(key, "x")));
  expect(outcomes(settled)).toEqual(["SERVER_REPLY", "SERVER_REPLY", "SERVER_REPLY"]);
  for (const key of ["a", "b", "c"]) expect(await listOf(key)).toEqual(["x"]);
});

test("pushes with and without options keep their order", async () => {
  const pushes: Promise<unknown>[] = [];
  for (let i = 0; i < 40; i += 4) {
    pushes.push(queue.push("k", `${i}`));
    pushes.push(queue.push("k", `${i + 1}`, { data: { field: "value" } }));
    pushes.push(queue.push("k", `${i + 2}`));
    pushes.push(queue.pushAll("k", [{ body: `${i + 3}` }]));
  }
  await Promise.all(pushes);
  expect(await listOf("k")).toEqual(Array.from({ length: 40 }, (_, i) => `${i}`));
});

test("large bodies are divided among calls", async () => {
  const body = "x".repeat(700_000);
  const keys = ["a", "b", "c", "d", "e"];
  await Promise.all(keys.map((key) => queue.push(key, body)));
  expect(await scriptCalls()).toBe(3); // one at once, then two and two
  for (const key of keys) expect(await server.command("LLEN", `p:queue:${key}`)).toBe(1);
});

test("close() waits for the pushes under way", async () => {
  await using own = await connect(server.url);
  const closing = new MergeQueue(own, { prefix: "p" });
  const pushes = Array.from({ length: 300 }, (_, i) => closing.push("k", `${i}`));
  await closing.close();
  await own.close();
  expect((await Promise.all(pushes)).at(-1)).toMatchObject({ items: 300 });
  expect(await listOf("k")).toEqual(Array.from({ length: 300 }, (_, i) => `${i}`));
});

test("over a lost connection each push has an outcome, and what was not sent is stored once", async () => {
  await using own = await startRedis();
  await using proxy = await startProxy(own);
  await using user = await connect(proxy.url);
  const lossy = new MergeQueue(user, { prefix: "p" });
  await lossy.push("k", "before");
  proxy.halfOpen();
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const sent: Promise<Pushed>[] = [];
  for (let group = 0; group < 7; group++) {
    // eight calls: the first push is sent at once, alone
    sent.push(...["1", "2"].map((body) => lossy.push("k", body)));
    await turn();
    await turn();
  }
  for (const each of sent) each.catch(() => {});
  const waiting = ["3", "4"].map((body) => lossy.push("k", body)); // the maximum number of calls is under way
  await turn();
  proxy.cut();
  await proxy.heal();
  for (const each of sent) {
    await expect(each).rejects.toBeInstanceOf(ConnectionLostError);
  }
  expect((await Promise.all(waiting)).map(({ items }) => items)).toEqual([2, 3]);
  expect(await own.command("LRANGE", "p:queue:k", "0", "-1")).toEqual(["before", "3", "4"]);
});
