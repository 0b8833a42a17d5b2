import { eventually, type RedisCluster, type RedisServer, startCluster } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect, defineScript, type Redis } from "../src/index.ts";
import { slotOf } from "../src/keys.ts";

const take = defineScript(new URL("./fixture/take.lua", import.meta.url));

let cluster: RedisCluster;
let redis: Redis;

beforeAll(async () => {
  cluster = await startCluster({ masters: 3, replicas: 1 });
  redis = await connect(cluster.url, { offlineWaitMs: 20_000 });
});

afterAll(async () => {
  await redis.close();
  await cluster.close();
});

test("commands and scripts go to the node that owns their key", async () => {
  const keys = Array.from({ length: 60 }, (_, i) => `key:${i}`);
  await Promise.all(keys.map((key) => redis.send(["SET", key, key], { key })));
  await Promise.all(keys.map((key) => redis.run(take, [`n:${key}`], [1])));
  for (const key of keys) {
    expect(await redis.send(["GET", key], { key })).toBe(key);
    const owner = await cluster.nodeOf(slotOf(key));
    expect(await owner.command("GET", key)).toBe(key);
  }
});

test("keys of different slots in one script are refused with a typed error", async () => {
  await expect(redis.run(take, ["a", "b"], [1])).rejects.toMatchObject({
    code: "SERVER_REPLY",
    prefix: "CROSSSLOT",
  });
});

test("a slot that moves is followed: ASK while it moves, MOVED when it has", async () => {
  const key = "{moving}:stock";
  const slot = slotOf(key);
  await redis.run(take, [key], [1]);
  const from = await cluster.nodeOf(slot);
  const to = cluster.nodes.find((node) => node !== from && isMaster.has(node.port));
  await cluster.moveSlot(slot, to ?? from, {
    beforeKeys: async () => {
      expect(await redis.run(take, ["{moving}:new"], [5])).toBe(5); // asked for at the target
      await redis.run(take, [key], [1]);
    },
    afterKeys: async () => {
      await redis.run(take, [key], [1]);
    },
  });
  expect(await redis.run(take, [key], [1])).toBe(4);
  expect(await to?.command("GET", key)).toBe("4");
});

const isMaster = new Set<number>();
beforeAll(async () => {
  for (const slot of [0, 8_000, 16_000]) isMaster.add((await cluster.nodeOf(slot)).port);
});

test("a blocking wait sits on its key's node and follows it", async () => {
  const key = "{wait}:list";
  await using waiting = await redis.blocking("test", key);
  const first = waiting.send(["BLPOP", key, "30"], { blockMs: 30_000 });
  await redis.send(["RPUSH", key, "a"], { key });
  expect(await first).toEqual([key, "a"]);
  const owner = await cluster.nodeOf(slotOf(key));
  const to = cluster.nodes.find((node) => node !== owner && isMaster.has(node.port)) ?? owner;
  await cluster.moveSlot(slotOf(key), to);
  const second = waiting.send(["BLPOP", key, "30"], { blockMs: 30_000 });
  await redis.send(["RPUSH", key, "b"], { key });
  expect(await second).toEqual([key, "b"]);
});

test("a message published anywhere is heard", async () => {
  await using subscriber = await redis.subscriber("test");
  const heard: string[] = [];
  await subscriber.subscribe("news", (message) => void heard.push(String(message)));
  await redis.send(["PUBLISH", "news", "x"], { key: "any" });
  await eventually(() => expect(heard).toEqual(["x"]));
});

test("a master killed under load is replaced by its replica and no command hangs", async () => {
  const key = "{load}:n";
  const codes = new Set<string>();
  let running = true;
  let done = 0;
  const callers = Array.from({ length: 10 }, async () => {
    while (running) {
      await redis.send(["INCR", key], { key }).then(
        () => {
          done += 1;
        },
        (error) => codes.add(error.code),
      );
    }
  });
  await eventually(() => expect(done).toBeGreaterThan(50));
  await cluster.failover(await cluster.nodeOf(slotOf(key)), "kill");
  const before = done;
  await eventually(() => expect(done).toBeGreaterThan(before + 50), { withinMs: 15_000 });
  running = false;
  await Promise.all(callers);
  expect([...codes].filter((code) => code !== "CONNECTION_LOST")).toEqual([]);
});

test("a wrong password is told at once, as everywhere", async () => {
  await using locked = await startCluster({ masters: 1, password: "right" });
  const wrong = locked.url.replace(/right/g, "wrong");
  await expect(connect(wrong, { connectWaitMs: 60_000 })).rejects.toMatchObject({
    code: "AUTH_FAILED",
  });
});

test("a closed cluster connection lends nothing and leaves nothing behind", async () => {
  const other = await connect(cluster.url, { name: "gone" });
  await other.close();
  expect(other.connected).toBe(false);
  const closed = { code: "CONNECTION_CLOSED" };
  await expect(other.blocking("late", "any")).rejects.toMatchObject(closed);
  await expect(other.subscriber("late")).rejects.toMatchObject(closed);
  for (const node of cluster.nodes.filter((each) => each.running)) {
    await eventually(async () => {
      const names = (await node.clients()).map((client) => client.name);
      expect(names.filter((name) => name.startsWith("gone"))).toEqual([]);
    });
  }
});

test("a script asks at a node that never saw it with one EVAL and no detour", async () => {
  const key = "{asked}:new";
  const from = await cluster.nodeOf(slotOf(key));
  const to = (await masters()).find((node) => node !== from) ?? from;
  await cluster.moveSlot(slotOf(key), to, {
    beforeKeys: async () => {
      await using other = await connect(cluster.url);
      await to.command("CONFIG", "RESETSTAT");
      expect(await other.run(take, [key], [7])).toBe(7);
      const stats = String(await to.command("INFO", "commandstats"));
      expect(/cmdstat_asking:calls=(\d+)/.exec(stats)?.[1]).toBe("1");
    },
  });
});

test("a wait on a list whose slot is moving goes on where the slot ends up", async () => {
  const key = "{moved-wait}:list";
  const from = await cluster.nodeOf(slotOf(key));
  const to = (await masters()).find((node) => node !== from) ?? from;
  await using waiting = await redis.blocking("test", key);
  let popped: Promise<unknown> | undefined;
  await cluster.moveSlot(slotOf(key), to, {
    beforeKeys: async () => {
      popped = waiting.send(["BLPOP", key, "30"], { blockMs: 30_000 });
      await redis.send(["RPUSH", key, "x"], { key }); // asked for at the target
    },
  });
  expect(await popped).toEqual([key, "x"]);
});

async function masters(): Promise<RedisServer[]> {
  return Promise.all([0, 8_000, 16_000].map((slot) => cluster.nodeOf(slot)));
}
