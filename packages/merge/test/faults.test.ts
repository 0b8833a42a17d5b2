import { connect } from "@ropeway/core";
import { eventually, spawnScript, startProxy, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { chaosDeliver, chaosLines } from "../chaos/deliver.ts";
import { Dispatcher, Inspector, keyOf, MergeQueue } from "../src/index.ts";
import { Receiver } from "./receiver.ts";

const FIXTURE = new URL("./dispatcher.fixture.ts", import.meta.url);

test("killed dispatchers and a failing receiver lose nothing, reorder nothing, overlap nothing", async () => {
  const report = await chaosDeliver({
    keys: 300,
    items: 3_000,
    dispatchers: 2,
    killEveryMs: 1_500,
    failRate: 0.2,
    withinMs: 60_000,
    seed: 7,
  });
  expect(chaosLines(report).filter((line) => line.endsWith("VIOLATED"))).toEqual([]);
  expect(report).toMatchObject({ accepted: 3_000, delivered: 3_000, lost: 0, outOfOrder: 0 });
}, 120_000);

test("endpoints that misbehave, deletions, replays and a full Redis change nothing of that", async () => {
  const report = await chaosDeliver({
    ...{ keys: 100, items: 1_000, dispatchers: 2, killEveryMs: 3_000, failRate: 0.1 },
    ...{ hostileRate: 0.03, sabotageEveryMs: 20, withinMs: 90_000, seed: 5 },
  });
  expect(chaosLines(report).filter((line) => line.endsWith("VIOLATED"))).toEqual([]);
  expect(report).toMatchObject({ accepted: 1_000, delivered: 1_000, lost: 0, outOfOrder: 0 });
}, 150_000);

test("a Redis that is killed and comes back loses nothing that was accepted", async () => {
  const report = await chaosDeliver({
    keys: 60,
    items: 600,
    dispatchers: 1,
    killEveryMs: 60_000,
    failRate: 0.1,
    redisKills: 2,
    withinMs: 60_000,
    seed: 3,
  });
  expect(chaosLines(report).filter((line) => line.endsWith("VIOLATED"))).toEqual([]);
  expect(report).toMatchObject({ accepted: 600, delivered: 600, lost: 0, outOfOrder: 0 });
}, 120_000);

test("a dispatcher killed while it sends loses nothing: the batch comes again after its lease", async () => {
  await using server = await startRedis();
  await using receiver = await Receiver.start();
  await using redis = await connect(server.url);
  const queue = new MergeQueue(redis, { prefix: "p" });
  const target = { mergeKey: "k", method: "POST", url: receiver.url() };
  receiver.answer = () => {}; // hangs while the dispatcher delivers
  const first = await spawnScript(FIXTURE, { args: [server.url, "p", "2000"] });
  await first.waitForLine(/^ready$/, { withinMs: 30_000 });
  await queue.push(keyOf(target, ""), '"precious"');
  await eventually(() => expect(receiver.requests).toHaveLength(1));
  await first.close();
  expect((await new Inspector(queue).list()).items[0]).toMatchObject({
    state: "sending",
    items: 1,
  });
  receiver.answer = (_, response) => response.end();
  const second = await spawnScript(FIXTURE, { args: [server.url, "p", "2000"] });
  await eventually(() => expect(receiver.requests).toHaveLength(2), { withinMs: 20_000 });
  expect(receiver.requests[1]?.body).toBe('["precious"]');
  expect(receiver.requests[1]?.headers["webhook-id"]).toBe(
    receiver.requests[0]?.headers["webhook-id"],
  );
  await eventually(async () => expect((await new Inspector(queue).stats()).keys).toBe(0));
  await second.close();
}, 60_000);

test("a dispatcher stopped for longer than its lease cannot complete what is another's", async () => {
  await using server = await startRedis();
  await using redis = await connect(server.url);
  const queue = new MergeQueue(redis, { prefix: "p" });
  await queue.push("k", "a");
  const stale = await queue.get("k", { leaseMs: 50 });
  await eventually(async () => expect(await queue.get("k", { leaseMs: 60_000 })).toBeDefined());
  await expect(queue.complete("k", stale?.token ?? "")).rejects.toMatchObject({
    code: "LEASE_LOST",
  });
  await expect(queue.release("k", stale?.token ?? "", { at: 1000 })).rejects.toMatchObject({
    code: "LEASE_LOST",
  });
  expect(await server.command("LLEN", "p:queue:k")).toBe(1);
});

test("a connection that is cut again and again loses nothing and stops nothing", async () => {
  await using server = await startRedis();
  await using proxy = await startProxy(server);
  await using redis = await connect(proxy.url);
  await using direct = await connect(server.url);
  const queue = new MergeQueue(redis, { prefix: "p" });
  const pusher = new MergeQueue(direct, { prefix: "p" });
  const seen = new Set<string>();
  const handler = async (batch: { items: readonly { body: Buffer }[] }) => {
    for (const { body } of batch.items) seen.add(String(body));
    return undefined;
  };
  const options = { leaseMs: 1_500, reserveMs: 200, backoff: { delayMs: 10, maxMs: 50 } };
  const dispatcher = await new Dispatcher(queue, handler, options).start();
  for (let i = 0; i < 200; i++) {
    await pusher.push(`k${i % 20}`, String(i));
    if (i % 40 === 39) proxy.cut();
  }
  await eventually(() => expect(seen.size).toBe(200), { withinMs: 20_000 });
  await eventually(async () => expect((await new Inspector(pusher).stats()).keys).toBe(0), {
    withinMs: 20_000,
  });
  await dispatcher.close();
}, 60_000);
