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
  await using source = await startWithSpare();
  await using target = await startRedis();
  const [first, second] = source.nodes as [RedisServer, RedisServer];
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

test("a position of a master that another shard copied meanwhile is not continued", async () => {
  await using source = await startWithSpare();
  await using target = await startRedis();
  const [spare, owner] = source.nodes as [RedisServer, RedisServer];
  const write = writer(source);
  const [slot] = await movable(source, owner);
  // The numbers of the shards after this slot change each time.
  for (const [round, to] of [owner, spare, owner, spare].entries()) {
    await source.moveSlot(slot, to);
    await using task = new SyncTask({ from: source.url, to: target.url, name: "numbers" });
    task.on("error", () => {});
    await task.start();
    for (const key of KEYS) await write("INCR", key);
    await eventually(async () => {
      const expected = Object.fromEntries(KEYS.map((key) => [key, String(round + 1)]));
      expect(await values(KEYS, async () => target)).toEqual(expected);
    }, LONG);
  }
}, 150_000);

test("a position is not continued either if its shard got another master and ended before its copy began", async () => {
  await using source = await startWithSpare();
  await using target = await startRedis();
  const [spare, owner, third] = source.nodes as [RedisServer, RedisServer, RedisServer];
  const write = writer(source);
  const moved = await movable(source, owner);
  const options = { from: source.url, to: target.url, name: "waiting" };
  const equal = async (expected: number, keys: readonly string[]) => {
    const all = Object.fromEntries(keys.map((key) => [key, String(expected)]));
    await eventually(async () => expect(await values(keys, async () => target)).toEqual(all), LONG);
  };
  const run = async (work: () => Promise<void>) => {
    await using task = new SyncTask(options);
    task.on("error", () => {});
    await task.start();
    await work();
  };
  for (const key of KEYS) await write("INCR", key);
  await run(() => equal(1, KEYS));
  await source.moveSlot(moved[0], spare);
  for (const key of KEYS) await write("INCR", key);
  const kept: string[] = [];
  for (const key of KEYS) if ((await source.nodeOf(key)) === third) kept.push(key);
  // The second shard is the spare master now and waits for this slot; the keys of the third master are copied.
  await source.moveSlot(moved[1], spare, { afterKeys: () => run(() => equal(2, kept)) });
  for (const slot of moved) await source.moveSlot(slot, owner);
  await run(async () => {
    for (const key of KEYS) await write("INCR", key);
    await equal(3, KEYS);
  });
}, 150_000);

for (const lost of ["one master", "all masters"]) {
  test(`a task whose position ${lost} of the source no longer has is resumed with a copy of it`, async () => {
    const config = [...CONFIG, "repl-backlog-size 16kb"];
    await using source = await startCluster({ masters: 2, config });
    await using target = await startRedis();
    const write = writer(source);
    for (const key of KEYS) await write("SET", key, "0");
    const options = { from: source.url, to: target.url, name: "lost" };
    await using before = new SyncTask(options);
    await before.start();
    await eventually(async () => {
      expect(await target.command("DBSIZE")).toBeGreaterThanOrEqual(KEYS.length);
      expect(before.status).toBe("COMMANDRUNNING");
    }, LONG);
    await before.close();
    const [losing] = source.nodes;
    for (const key of KEYS) {
      if (lost === "all masters" || (await source.nodeOf(key)) === losing) {
        await write("SET", key, "x".repeat(100_000));
      } else await write("INCR", key);
    }
    await using task = new SyncTask(options);
    await task.start();
    await eventually(async () => {
      const expected = await values(KEYS, (key) => source.nodeOf(key));
      expect(await values(KEYS, async () => target)).toEqual(expected);
    }, LONG);
    expect(task.progress().fullResyncs).toBe(lost === "one master" ? 1 : 2);
  }, 150_000);
}

for (const mode of ["total", "stock"] as const) {
  test(`a task in mode ${mode} starts while a slot of the source is being moved`, async () => {
    await using source = await startCluster({ masters: 2, config: CONFIG });
    await using target = await startRedis();
    const write = writer(source);
    for (const key of KEYS) await write("SET", key, "0");
    await using task = new SyncTask({ from: source.url, to: target.url, mode });
    const slot = await source.slotOf(KEYS[0] as string);
    await source.moveSlot(slot, await nextMaster(source, slot), {
      afterKeys: async () => {
        await task.start();
        // The other master has been copied.
        await eventually(() => expect(task.progress().keys).toBeGreaterThan(0), LONG);
      },
    });
    if (mode === "stock") await task.finished;
    await eventually(async () => {
      const expected = Object.fromEntries(KEYS.map((key) => [key, "0"]));
      expect(await values(KEYS, async () => target)).toEqual(expected);
    }, LONG);
  }, 150_000);
}

/** Two slots of a master that have keys. */
async function movable(cluster: RedisCluster, owner: RedisServer): Promise<[number, number]> {
  const found = new Set<number>();
  for (const key of KEYS) {
    if ((await cluster.nodeOf(key)) === owner) found.add(await cluster.slotOf(key));
  }
  return [...found].slice(0, 2) as [number, number];
}

/** A cluster whose first master has no slots. */
async function startWithSpare(): Promise<RedisCluster> {
  const config = [...CONFIG, "cluster-allow-replica-migration no"];
  const cluster = await startCluster({ masters: 3, config });
  const [first, second, third] = cluster.nodes as [RedisServer, RedisServer, RedisServer];
  const id = String(await second.command("CLUSTER", "MYID"));
  const empty = await slotsOf(first);
  for (const node of [second, first, third]) {
    await Promise.all(
      empty.map((slot) => node.command("CLUSTER", "SETSLOT", String(slot), "NODE", id)),
    );
  }
  await cluster.settled();
  return cluster;
}

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
