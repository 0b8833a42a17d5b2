import {
  eventually,
  type RedisCluster,
  type RedisServer,
  startCluster,
  startRedis,
} from "@ropeway/testkit";
import { expect, test } from "vitest";
import { SyncTask } from "../src/task.ts";

const CONFIG = ["repl-diskless-sync-delay 0"];
const LONG = { withinMs: 60_000 };
const KEYS = Array.from({ length: 30 }, (_, i) => `k${i}`);

/** Sends a command to the owner of its key, also while the slot is being moved. */
function writer(cluster: RedisCluster): (...argv: [string, string, ...string[]]) => Promise<void> {
  return (...argv) =>
    eventually(async () => void (await (await cluster.nodeOf(argv[1])).command(...argv)), LONG);
}

async function values(keys: readonly string[], read: (key: string) => Promise<RedisServer>) {
  const found: Record<string, string> = {};
  for (const key of keys) found[key] = String(await (await read(key)).command("GET", key));
  return found;
}

/** The master after the one that owns a slot. */
async function nextMaster(cluster: RedisCluster, slot: number): Promise<RedisServer> {
  const owner = await cluster.nodeOf(slot);
  return cluster.nodes[(cluster.nodes.indexOf(owner) + 1) % cluster.nodes.length] as RedisServer;
}

for (const kind of ["a standalone server", "a cluster"] as const) {
  test(`slots of the source move while clients write, to ${kind}`, async () => {
    await using source = await startCluster({ masters: 3, config: CONFIG });
    await using cluster = kind === "a cluster" ? await startCluster({ masters: 2 }) : undefined;
    await using single = cluster === undefined ? await startRedis() : undefined;
    const write = writer(source);
    for (const key of KEYS) await write("SET", key, "0");
    const to = cluster?.url ?? single?.url ?? "";
    await using task = new SyncTask({ from: source.url, to, name: "reshard" });
    task.on("error", () => {});
    await task.start();
    await eventually(() => expect(task.status).toBe("COMMANDRUNNING"), LONG);
    let stopped = false;
    const writing = (async () => {
      for (let round = 0; !stopped; round++) {
        const key = KEYS[round % KEYS.length] as string;
        await write("INCR", key);
        if (round % 5 === 0) await write("DEL", KEYS[(round * 7) % KEYS.length] as string);
      }
    })();
    for (const key of KEYS.slice(0, 8)) {
      const slot = await source.slotOf(key);
      await source.moveSlot(slot, await nextMaster(source, slot));
    }
    stopped = true;
    await writing;
    const target = async (key: string) => (await cluster?.nodeOf(key)) ?? (single as RedisServer);
    await eventually(async () => {
      const expected = await values(KEYS, (key) => source.nodeOf(key));
      expect(await values(KEYS, target)).toEqual(expected);
    }, LONG);
    // One per shard, at the beginning.
    expect(task.progress()).toMatchObject({ errors: 0, fullResyncs: 3 });
  }, 150_000);
}

test("slots of the target move while changes are applied, each exactly once", async () => {
  await using source = await startRedis({ config: CONFIG });
  await using target = await startCluster({ masters: 3 });
  await using task = new SyncTask({ from: source.url, to: target.url, name: "target" });
  task.on("error", () => {});
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"), LONG);
  let stopped = false;
  const counted = new Map<string, number>();
  const writing = (async () => {
    for (let round = 0; !stopped; round++) {
      const key = KEYS[round % 10] as string;
      await source.command("INCR", key);
      counted.set(key, (counted.get(key) ?? 0) + 1);
    }
  })();
  for (const key of KEYS.slice(0, 6)) {
    const slot = await target.slotOf(key);
    await target.moveSlot(slot, await nextMaster(target, slot));
  }
  stopped = true;
  await writing;
  const expected = Object.fromEntries(Array.from(counted, ([key, n]) => [key, String(n)]));
  await eventually(async () => {
    expect(await values([...counted.keys()], (key) => target.nodeOf(key))).toEqual(expected);
  }, LONG);
  expect(task.progress()).toMatchObject({ errors: 0, fullResyncs: 1 });
}, 150_000);

test("a master of the source that gets its first slots is followed, and left when it has none", async () => {
  const config = [...CONFIG, "cluster-allow-replica-migration no"];
  await using source = await startCluster({ masters: 3, config });
  await using target = await startRedis();
  const [first, second] = source.nodes as [RedisServer, RedisServer];
  const id = String(await second.command("CLUSTER", "MYID"));
  const empty = await slotsOf(first);
  for (const node of [second, first, source.nodes[2] as RedisServer]) {
    await Promise.all(
      empty.map((slot) => node.command("CLUSTER", "SETSLOT", String(slot), "NODE", id)),
    );
  }
  await source.settled();
  const write = writer(source);
  for (const key of KEYS) await write("SET", key, "0");
  await using task = new SyncTask({ from: source.url, to: target.url, name: "masters" });
  task.on("error", () => {});
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"), LONG);
  for (const [round, to] of [first, second].entries()) {
    for (const key of KEYS.slice(0, 5)) await source.moveSlot(await source.slotOf(key), to);
    for (const key of KEYS) await write("INCR", key);
    await eventually(async () => {
      const expected = Object.fromEntries(KEYS.map((key) => [key, String(round + 1)]));
      expect(await values(KEYS, async () => target)).toEqual(expected);
    }, LONG);
  }
}, 150_000);

async function slotsOf(node: RedisServer): Promise<number[]> {
  const own = String(await node.command("CLUSTER", "NODES"))
    .split("\n")
    .find((line) => line.includes("myself"));
  const ranges = own?.trim().split(" ").slice(8) ?? [];
  return ranges.flatMap((range) => {
    const [from = 0, to = from] = range.split("-").map(Number);
    return Array.from({ length: to - from + 1 }, (_, i) => from + i);
  });
}
