import { connect, type Redis } from "@ropeway/core";
import {
  eventually,
  otherServer,
  startCluster,
  startRedis,
  startSentinelTrio,
} from "@ropeway/testkit";
import { expect, test } from "vitest";
import { DeadLetters, Dispatcher, Inspector, MergeQueue } from "../src/index.ts";

/** Uses every feature: push, merge, retry, dead letter, replay, delete, singles, stats. */
async function live(redis: Redis, prefix: string): Promise<void> {
  const queue = new MergeQueue(redis, { prefix });
  const inspector = new Inspector(queue);
  const letters = new DeadLetters(queue);
  const seen: string[] = [];
  let failures = 2;
  const dispatcher = await new Dispatcher(
    queue,
    async (batch) => {
      if (batch.key === "poor" && failures > 0) {
        failures -= 1;
        throw new Error("no");
      }
      seen.push(`${batch.key}:${batch.items.map(({ body }) => String(body))}`);
    },
    { attempts: 2, backoff: { delayMs: 5, maxMs: 5 } },
  ).start();
  await queue.pushAll("k", [{ body: "a" }, { body: "b" }], { data: { f: "1" } });
  await queue.push("poor", "c", { idempotencyKey: "one" });
  await queue.push("-s", "d");
  await queue.push("gone", "e", { at: 4000000000000 });
  expect(await inspector.remove("gone")).toEqual({ deleted: 1, sending: 0 });
  const letter = await eventually(async () => {
    const [found] = (await letters.list()).items;
    if (found === undefined) throw new Error("no letter yet");
    return found;
  });
  await letters.replay(letter.id);
  await eventually(() => expect(seen.sort()).toEqual(["-s:d", "k:a,b", "poor:c"]));
  await eventually(async () =>
    expect(await inspector.stats()).toMatchObject({ keys: 0, deadLetters: 0, due: 0 }),
  );
  await queue.push("k", "x", { at: 4000000000000 });
  expect((await inspector.list({ search: "k" })).items).toMatchObject([{ key: "k", items: 1 }]);
  expect((await queue.schedule()).waitMs).toBeGreaterThan(0);
  await dispatcher.close();
  await queue.close();
}

test("everything works on Redis Cluster, and goes on after a failover and a moved slot", async () => {
  await using cluster = await startCluster({ replicas: 1 });
  await using redis = await connect(cluster.url);
  await live(redis, "{tag}");
  await live(redis, "ropeway:{merge}");
  expect(() => new MergeQueue(redis, { prefix: "plain" })).toThrow("hash tag");
  const queue = new MergeQueue(redis, { prefix: "{move}" });
  const seen: string[] = [];
  const dispatcher = await new Dispatcher(queue, async (batch) => {
    seen.push(...batch.items.map(({ body }) => String(body)));
  }).start();
  const owner = await cluster.nodeOf("{move}");
  await queue.push("k", "1");
  await cluster.failover(owner, "command");
  await queue.push("k", "2");
  const slot = await cluster.slotOf("{move}");
  const other = await cluster.nodeOf((slot + 8_000) % 16_384);
  // A script waits while its keys are on both nodes, and ends when the move has ended.
  let during: Promise<unknown> = Promise.resolve();
  await cluster.moveSlot(slot, other, {
    beforeKeys: async () => {
      during = queue.push("k", "3");
    },
  });
  await during;
  await queue.push("k", "4");
  await eventually(() => expect(new Set(seen)).toEqual(new Set(["1", "2", "3", "4"])), {
    withinMs: 15_000,
  });
  await dispatcher.close();
}, 120_000);

test("a Sentinel failover interrupts the firing and does not end it", async () => {
  await using trio = await startSentinelTrio();
  await using redis = await connect(trio.url);
  const queue = new MergeQueue(redis, { prefix: "p" });
  const seen = new Set<string>();
  const dispatcher = await new Dispatcher(
    queue,
    async (batch) => {
      for (const { body } of batch.items) seen.add(String(body));
    },
    { leaseMs: 2_000 },
  ).start();
  await queue.push("a", "1");
  await eventually(() => expect(seen).toEqual(new Set(["1"])));
  await trio.failover("kill");
  await eventually(() => queue.push("b", "2"), { withinMs: 20_000 });
  await eventually(() => expect(seen).toEqual(new Set(["1", "2"])), { withinMs: 20_000 });
  await dispatcher.close();
}, 120_000);

for (const version of ["redis-8.0", "valkey-8.1"] as const) {
  const { reason } = otherServer(version);
  test.skipIf(reason !== undefined)(
    `everything works on ${version} ${reason ?? ""}`,
    async () => {
      await using server = await startRedis({ version });
      await using redis = await connect(server.url);
      await live(redis, "p");
    },
    60_000,
  );
}
