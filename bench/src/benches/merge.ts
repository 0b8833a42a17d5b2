/**
 * Measures the merge queue: the cost of an HTTP push compared with a minimal route, the rate of fired
 * batches compared with a minimal script, the lateness of batches, and the cost of a million waiting keys.
 */
import { connect, defineScript, type Redis } from "@ropeway/core";
import { Dispatcher, encodeService, HttpDispatcher, keyOf, MergeQueue } from "@ropeway/merge";
import type { Bar, Bench, Contender, Scenario, Session } from "../bench.ts";
import { closedLoop, latencyOf } from "../closed-loop.ts";
import { absolute, type Results } from "../results.ts";
import type { Stage } from "../stage.ts";
import { HttpLoad, postBytes } from "./merge/http-load.ts";

const OURS = "ropeway";
const BARE = "Fastify + EVALSHA";
const SCRIPT = "one script per key";
const SINGLE = "one POST per item";

const drain = defineScript<readonly string[]>(new URL("../../lua/drain.lua", import.meta.url));

const FAR = 4_000_000_000;
const IN_FLIGHT = 64;
const KEYS = 1_000;

/** POSTs with 1,000 merge keys that are due far in the future, so that only the push is measured. */
async function openPush(stage: Stage, file: URL): Promise<Session> {
  const remote = await stage.fork(file, { url: stage.url, prefix: stage.prefix });
  const load = await HttpLoad.open(await remote.ask<number>("port"), IN_FLIGHT);
  const service = encodeService("http://127.0.0.1:9/digest");
  const body = JSON.stringify({ text: stage.text });
  const requests = Array.from({ length: KEYS }, (_, i) =>
    postBytes(`/v3/queue/cross${i}_789/POST/${service}?update=always&ontime=${FAR}`, body),
  );
  let next = 0;
  return {
    run: ({ ms }) =>
      closedLoop({
        inFlight: IN_FLIGHT,
        ms,
        issue: () => load.send(requests[next++ % KEYS] as Buffer),
        isRight: (status) => status === 202,
      }),
    close: async () => load.close(),
  };
}

const pushers: Contender[] = [
  {
    name: OURS,
    role: "ours",
    open: (stage) => openPush(stage, new URL("./merge/merge-server.ts", import.meta.url)),
  },
  {
    name: BARE,
    role: "ceiling",
    open: (stage) => openPush(stage, new URL("./merge/bare-server.ts", import.meta.url)),
  },
];

const ITEMS_PER_KEY = 200;
const BATCHES_PER_MS = 1;

/** Fires due keys with 200 items each, which were added before the slice, to a counting handler. */
async function openFire(stage: Stage): Promise<Session> {
  const redis = await connect(stage.url);
  const queue = new MergeQueue(redis, { prefix: stage.prefix, maxItems: ITEMS_PER_KEY });
  let keys = 0;
  return {
    prepare: async ({ ms }) => {
      keys = Math.max(10, Math.round(ms * BATCHES_PER_MS));
      await fill(queue, keys, stage.text);
    },
    run: () => fireAll(queue, keys * ITEMS_PER_KEY),
    close: () => redis.close(),
  };
}

async function fill(queue: MergeQueue, keys: number, text: string): Promise<void> {
  const items = Array.from({ length: ITEMS_PER_KEY }, () => ({ body: text, at: 1_000 }));
  for (let i = 0; i < keys; i++) await queue.pushAll(`k${i}`, items);
}

async function fireAll(queue: MergeQueue, expected: number) {
  let operations = 0;
  let finish = () => {};
  const done = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const dispatcher = await new Dispatcher(queue, async (batch) => {
    operations += batch.items.length;
    if (operations >= expected) finish();
    return undefined;
  }).start();
  await done;
  await dispatcher.close();
  return { operations, checked: operations === expected ? operations : 0 };
}

async function openDrain(stage: Stage): Promise<Session> {
  const redis = await connect(stage.url);
  const queue = new MergeQueue(redis, { prefix: stage.prefix });
  let keys = 0;
  return {
    prepare: async ({ ms }) => {
      keys = Math.max(10, Math.round(ms * BATCHES_PER_MS));
      await fill(queue, keys, stage.text);
    },
    run: async () => {
      const names = Array.from({ length: keys }, (_, i) => `k${i}`);
      const drained = await Promise.all(
        names.map((key) => redis.run(drain, [queue.keys.queue(key), queue.keys.timer], [key])),
      );
      const operations = drained.reduce((sum, items) => sum + items.length, 0);
      for (const key of names)
        await redis.send([
          "DEL",
          `${queue.keys.queue(key)}:items`,
          `${queue.keys.queue(key)}:state`,
        ]);
      return { operations, checked: operations };
    },
    close: () => redis.close(),
  };
}

const RECEIVER = new URL("./merge/receiver.ts", import.meta.url);

/** Delivers due keys with 200 items each over HTTP. */
async function openDeliver(stage: Stage): Promise<Session> {
  const redis = await connect(stage.url);
  const queue = new MergeQueue(redis, { prefix: stage.prefix, maxItems: ITEMS_PER_KEY });
  const receiver = await stage.fork(RECEIVER);
  const url = `http://127.0.0.1:${await receiver.ask<number>("port")}/`;
  const body = JSON.stringify({ text: stage.text });
  let keys = 0;
  return {
    prepare: async ({ ms }) => {
      keys = Math.max(10, Math.round(ms / 5));
      const items = Array.from({ length: ITEMS_PER_KEY }, () => ({ body, at: 1_000 }));
      for (let i = 0; i < keys; i++) {
        await queue.pushAll(keyOf({ mergeKey: `k${i}`, method: "POST", url }, ""), items);
      }
    },
    run: async () => {
      const before = await receiver.ask<number>("items");
      const expected = keys * ITEMS_PER_KEY;
      const dispatcher = await new HttpDispatcher(queue, { allow: ["loopback"] }).start();
      let seen = 0;
      while (seen < expected) seen = (await receiver.ask<number>("items")) - before;
      await dispatcher.close();
      return { operations: seen, checked: seen === expected ? seen : 0 };
    },
    close: () => redis.close(),
  };
}

/** Sends the same items from memory to the same receiver, each in its own request. */
async function openSingle(stage: Stage): Promise<Session> {
  const receiver = await stage.fork(RECEIVER);
  const load = await HttpLoad.open(await receiver.ask<number>("port"), IN_FLIGHT);
  const request = postBytes("/", JSON.stringify({ text: stage.text }));
  return {
    run: ({ ms }) =>
      closedLoop({
        inFlight: IN_FLIGHT,
        ms,
        issue: () => load.send(request),
        isRight: (status) => status === 200,
      }),
    close: async () => load.close(),
  };
}

/** Measures the lateness of one key every 10 milliseconds, without other load. */
async function openLateness(stage: Stage): Promise<Session> {
  const redis = await connect(stage.url);
  const queue = new MergeQueue(redis, { prefix: stage.prefix });
  let late: number[] = [];
  let arrived = () => {};
  const dispatcher = await new Dispatcher(queue, async (batch) => {
    late.push(batch.lateMs);
    arrived();
    return undefined;
  }).start();
  return {
    run: async ({ ms, round }) => {
      late = [];
      const count = Math.max(20, Math.round(ms / 10));
      const [sec, usec] = await redis.send<readonly string[]>(["TIME"]);
      const start = Number(sec) + Number(usec) / 1e6 + 0.2;
      await Promise.all(
        Array.from({ length: count }, (_, i) =>
          queue.push(`r${round}-${i}`, "x", { at: (start + i * 0.01) * 1_000 }),
        ),
      );
      await new Promise<void>((resolve) => {
        arrived = () => {
          if (late.length >= count) resolve();
        };
        arrived();
      });
      const early = late.filter((each) => each < 0).length;
      return { operations: count, checked: count - early, latency: latencyOf(late) };
    },
    close: async () => {
      await dispatcher.close();
      await redis.close();
    },
  };
}

/** Pushes and fires due keys while `pending` other keys wait. */
function growing(pending: number, name: string): Contender {
  return {
    name,
    role: "ours",
    open: async (stage) => {
      const redis = await connect(stage.url);
      const queue = new MergeQueue(redis, { prefix: stage.prefix });
      await crowd(redis, queue, pending);
      const waiting = new Map<string, (right: boolean) => void>();
      const dispatcher = await new Dispatcher(queue, async (batch) => {
        waiting.get(batch.key)?.(batch.items.length === 1);
        return undefined;
      }).start();
      let next = 0;
      const issue = async (): Promise<boolean> => {
        const key = `due${next++}`;
        const fired = new Promise<boolean>((resolve) => waiting.set(key, resolve));
        await queue.push(key, stage.text);
        const right = await fired;
        waiting.delete(key);
        return right;
      };
      return {
        run: ({ ms }) => closedLoop({ inFlight: 32, ms, issue, isRight: (right) => right }),
        close: async () => {
          await dispatcher.close();
          await redis.close();
        },
      };
    },
  };
}

/** Adds keys in the documented Python format: a list and a timer entry. */
async function crowd(redis: Redis, queue: MergeQueue, pending: number): Promise<void> {
  const step = 10_000;
  for (let from = 0; from < pending; from += step) {
    const names = Array.from(
      { length: Math.min(step, pending - from) },
      (_, i) => `far${from + i}`,
    );
    const scored = names.flatMap((name, i) => [String(FAR + from + i), name]);
    await Promise.all([
      redis.send(["ZADD", queue.keys.timer, ...scored]),
      ...names.map((name) => redis.send(["RPUSH", queue.keys.queue(name), "x"])),
    ]);
  }
}

const FEW = "1,000 waiting";
const MANY = "1,000,000 waiting";

const scenarios: Scenario[] = [
  {
    id: "merge.push.http",
    title: `One POST, ${IN_FLIGHT} in flight, ${KEYS} merge keys`,
    measure: "throughput",
    baseline: BARE,
    contenders: pushers,
  },
  {
    id: "merge.fire",
    title: `Items fired in batches of ${ITEMS_PER_KEY} to a handler`,
    measure: "throughput",
    baseline: SCRIPT,
    contenders: [
      { name: OURS, role: "ours", open: openFire },
      { name: SCRIPT, role: "ceiling", open: openDrain },
    ],
  },
  {
    id: "merge.deliver.http",
    title: `Items delivered over HTTP in batches of ${ITEMS_PER_KEY}`,
    measure: "throughput",
    baseline: SINGLE,
    contenders: [
      { name: OURS, role: "ours", open: openDeliver },
      { name: SINGLE, role: "ceiling", open: openSingle },
    ],
  },
  {
    id: "merge.lateness",
    title: "How late a key fires, one every 10 ms",
    measure: "latency",
    baseline: OURS,
    contenders: [{ name: OURS, role: "ours", open: openLateness }],
  },
  {
    id: "merge.growth",
    title: "Push and fire one key while others wait",
    measure: "throughput",
    baseline: FEW,
    contenders: [growing(1_000, FEW), growing(1_000_000, MANY)],
  },
];

function standing(results: Results, scenario: string) {
  const found = results.scenarios.find((result) => result.scenario.id === scenario);
  return found?.standings.find(({ name }) => name === OURS);
}

const bars: Bar[] = [
  {
    id: "merge.push.http",
    ratio: (results) =>
      results.ratio({ scenario: "merge.push.http", metric: "rate", of: OURS, to: BARE })?.median,
    op: ">=",
    target: 0.7,
  },
  {
    id: "merge.fire",
    ratio: (results) =>
      results.ratio({ scenario: "merge.fire", metric: "rate", of: OURS, to: SCRIPT })?.median,
    op: ">=",
    target: 0.75,
  },
  {
    id: "merge.fire.items-per-command",
    ratio: (results) => {
      const ours = standing(results, "merge.fire");
      const commands = ours && absolute(ours, "commands")?.median;
      return commands === undefined ? undefined : 1 / commands;
    },
    op: ">=",
    target: 5,
  },
  {
    // p99 divided by the maximum of 25 ms
    id: "merge.lateness.p99",
    ratio: (results) => {
      const ours = standing(results, "merge.lateness");
      const p99 = ours && absolute(ours, "p99")?.median;
      return p99 === undefined ? undefined : p99 / 25_000;
    },
    op: "<=",
    target: 1,
  },
  {
    id: "merge.growth.1k-1M",
    ratio: (results) =>
      results.ratio({ scenario: "merge.growth", metric: "rate", of: FEW, to: MANY })?.median,
    op: "<=",
    target: 2,
  },
];

export const bench: Bench = {
  name: "merge",
  title: "Merge queue: pushing, firing, lateness, growth",
  payload: 100,
  scenarios,
  bars,
};
