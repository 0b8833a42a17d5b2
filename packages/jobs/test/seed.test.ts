import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { connect } from "@ropeway/core";
import { eventually, startProxy } from "@ropeway/testkit";
import { afterEach, describe, expect, it } from "vitest";
import { SeedQueue, SeedWorker, type SeedWorkerPlan } from "../src/index.ts";
import { readSeedItem } from "../src/seed/seed-queue.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const workers: SeedWorker[] = [];

afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.close()));
  await one.redis.send(["FLUSHALL"]);
});

async function work(plan: SeedWorkerPlan, options = {}): Promise<SeedWorker> {
  const worker = await new SeedWorker(one.redis, plan, options).start();
  workers.push(worker);
  return worker;
}

/** The document's programs, in Python. */
function python(...args: string[]): {
  child: ChildProcess;
  lines: unknown[];
  ended: Promise<unknown>;
} {
  const file = fileURLToPath(new URL("./seed.py", import.meta.url));
  const child = spawn("python3", [file, String(one.server.port), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines: unknown[] = [];
  let rest = "";
  child.stdout?.on("data", (chunk) => {
    rest += chunk;
    const whole = rest.split("\n");
    rest = whole.pop() ?? "";
    for (const line of whole) if (line.startsWith("[")) lines.push(JSON.parse(line));
  });
  return { child, lines, ended: once(child, "exit") };
}

describe("the seed's wire", () => {
  it("lets a Python producer of both forms and of delayed items feed our worker, in order", async () => {
    const seen: unknown[] = [];
    await work({
      queues: "mail",
      callbacks: { send: (...args: unknown[]) => void seen.push(args) },
    });
    await python("produce").ended;
    await eventually(() => expect(seen).toHaveLength(50));
    expect(seen).toEqual([
      ...Array.from({ length: 20 }, (_, i) => [i, "simple"]),
      ...Array.from({ length: 20 }, (_, i) => [i + 20, "four"]),
      ...Array.from({ length: 10 }, (_, i) => [i + 40, "delayed"]),
    ]);
    expect(await one.redis.send(["DBSIZE"])).toBe(0);
  });

  it("lets our producer feed a Python consumer, the first named queue first", async () => {
    const queue = new SeedQueue(one.redis);
    for (let i = 0; i < 3; i++) {
      await queue.push("low", "send", [i]);
      await queue.later("high", "send", { args: [i] });
    }
    const consumer = python("consume", "6", "high,low");
    await consumer.ended;
    expect(consumer.lines).toEqual([
      ...[0, 1, 2].map((i) => ["queue:high", "send", [i]]),
      ...[0, 1, 2].map((i) => ["queue:low", "send", [i]]),
    ]);
  });

  it("lets a Python poller move our delayed items, and ours theirs, each once", async () => {
    const queue = new SeedQueue(one.redis);
    const poller = python("poll", "2");
    const seen: unknown[] = [];
    await work({
      queues: "mail",
      callbacks: { send: (...args: unknown[]) => void seen.push(args[0]) },
    });
    for (let i = 0; i < 40; i++)
      await queue.later("mail", "send", { args: [i], delayMs: 50 + i * 5 });
    await eventually(() => expect(seen).toHaveLength(40));
    expect([...seen].sort((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: 40 }, (_, i) => i),
    );
    await poller.ended;
  });

  it("keeps what a dead worker had taken, and sets aside what nobody can read", async () => {
    const queue = new SeedQueue(one.redis);
    await queue.push("mail", "send", [1]);
    // A worker took the item and died: its lease expires.
    await one.redis.send(["HSET", "{queue:mail}:taken", "dead:1", '["send",[0]]']);
    await one.redis.send(["ZADD", "{queue:mail}:leases", "1", "dead:1"]);
    await one.redis.send(["RPUSH", "queue:mail", "no json", '{"a":1}', '["unknown",[]]']);
    const seen: unknown[] = [];
    await work({
      queues: "mail",
      callbacks: { send: (...args: unknown[]) => void seen.push(args[0]) },
    });
    await eventually(() => expect(seen).toEqual([0, 1]));
    await eventually(async () => {
      const bad = await one.redis.send(["LRANGE", "{queue:mail}:bad", "0", "-1"]);
      expect(bad).toEqual(["no json", '{"a":1}', '["unknown",[]]']);
      const beside = ["{queue:mail}:taken", "{queue:mail}:leases"];
      expect(await one.redis.send(["EXISTS", ...beside])).toBe(0);
    });
  });

  it("renews the lease of an item whose callback takes long", async () => {
    const leases = "{queue:mail}:leases";
    let end: () => void = () => {};
    const long = () => new Promise<void>((resolve) => (end = resolve));
    await work({ queues: "mail", callbacks: { long } }, { leaseMs: 3_000 });
    await new SeedQueue(one.redis).push("mail", "long");
    const first = await eventually(async () => {
      const [, ends] = await one.redis.send<string[]>(["ZRANGE", leases, "0", "0", "WITHSCORES"]);
      expect(ends).toBeDefined();
      return Number(ends);
    });
    await eventually(async () => {
      const [, ends] = await one.redis.send<string[]>(["ZRANGE", leases, "0", "0", "WITHSCORES"]);
      expect(Number(ends)).toBeGreaterThan(first);
    });
    end();
    await eventually(async () => expect(await one.redis.send(["EXISTS", leases])).toBe(0));
  });

  it.each(["good", "bad"])(
    "ends a %s item once if the connection is cut meanwhile",
    async (name) => {
      const proxy = await startProxy(one.server);
      const redis = await connect(proxy.url);
      let runs = 0;
      const run = (fails: boolean) => {
        runs++;
        proxy.halfOpen(); // the report of the item's end is on its way, and gets lost
        setTimeout(() => {
          proxy.cut();
          void proxy.heal();
        }, 300);
        if (fails) throw new Error("bad");
      };
      const callbacks = { good: () => run(false), bad: () => run(true) };
      const worker = new SeedWorker(redis, { queues: "mail", callbacks }, { leaseMs: 8_000 });
      await worker.on("error", () => {}).start();
      await new SeedQueue(one.redis).push("mail", name);
      const { taken, bad } = { taken: "{queue:mail}:taken", bad: "{queue:mail}:bad" };
      await eventually(() => expect(runs).toBe(1));
      const gone = async () =>
        expect(await one.redis.send(["EXISTS", taken, "queue:mail"])).toBe(0);
      await eventually(gone, { withinMs: 20_000 });
      expect(runs).toBe(1);
      expect(await one.redis.send(["LLEN", bad])).toBe(name === "bad" ? 1 : 0);
      await worker.close();
      await redis.close();
      await proxy.close();
    },
    40_000,
  );

  it("is not due at an infinite time, and a foreign value beside the list stops nobody", async () => {
    const never = ["ZADD", "delayed:", "+inf", '["never","mail","send",["never"]]'];
    await one.redis.send(never);
    await one.redis.send(["ZADD", "delayed:", "-inf", '["now","mail","send",["now"]]']);
    await one.redis.send(["SET", "{queue:mail}:bad", "foreign"]);
    await one.redis.send(["RPUSH", "queue:mail", "no item"]);
    const seen: unknown[] = [];
    const callbacks = { send: (what: string) => void seen.push(what) };
    const worker = await work({ queues: "mail", callbacks });
    worker.on("error", () => {});
    await eventually(() => expect(seen).toEqual(["now"]));
    expect(await new SeedQueue(one.redis).moveDue()).toEqual({ moved: 0, nextMs: -1 });
  });

  it("is set aside when it is due and its list is a value of another type", async () => {
    const item = '["id","odd","send",[1]]';
    await one.redis.send(["SET", "queue:odd", "foreign"]);
    await one.redis.send(["ZADD", "delayed:", "1", item, "2", '["id","mail","send",[2]]']);
    expect(await new SeedQueue(one.redis).moveDue()).toMatchObject({ moved: 2 });
    expect(await one.redis.send(["LRANGE", "delayed:bad", "0", "-1"])).toEqual([item]);
    expect(await one.redis.send(["LLEN", "queue:mail"])).toBe(1);
  });

  it("is taken back from a lost worker, and its lease renewed, while Redis is out of memory", async () => {
    const [taken, leases] = ["{queue:mail}:taken", "{queue:mail}:leases"];
    await one.redis.send(["HSET", taken, "lost:1", '["send",["lost"]]']);
    await one.redis.send(["ZADD", leases, "1", "lost:1"]);
    await one.redis.send(["RPUSH", "queue:mail", '["send",["waiting"]]']);
    await one.redis.send(["CONFIG", "SET", "maxmemory", "1"]);
    try {
      const seen: string[] = [];
      const send = async (what: string) => {
        seen.push(what);
        await new Promise((resolve) => setTimeout(resolve, 3_000)); // twice its lease
      };
      for (let i = 0; i < 2; i++) {
        const worker = await work({ queues: "mail", callbacks: { send } }, { leaseMs: 1_500 });
        worker.on("error", () => {}); // its blocking command is refused
      }
      const ended = async () => expect(await one.redis.send(["EXISTS", taken])).toBe(0);
      await eventually(() => expect(seen).toHaveLength(2), { withinMs: 15_000 });
      await eventually(ended, { withinMs: 15_000 });
      expect(seen.sort()).toEqual(["lost", "waiting"]);
    } finally {
      await one.redis.send(["CONFIG", "SET", "maxmemory", "0"]);
    }
  }, 40_000);

  it("reads items of both forms and nothing else", () => {
    expect(readSeedItem('["f",[1]]')).toEqual({ name: "f", args: [1] });
    expect(readSeedItem('["id","q","f",[1]]')).toEqual({ id: "id", name: "f", args: [1] });
    for (const bad of [
      "",
      "1",
      "[]",
      '["f"]',
      '["f",1]',
      '["a","b","c"]',
      "[1,2,3,4]",
      '["a","b","c","d"]',
    ]) {
      expect(readSeedItem(bad)).toBeUndefined();
    }
  });
});
