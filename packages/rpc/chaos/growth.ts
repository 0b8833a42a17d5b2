/**
 * Makes a million calls, and a million calls of missing methods with different names. Afterwards caller and
 * worker, which both run in this process, must hold no more memory and resources than before.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { connect, type Redis } from "@ropeway/core";
import { startRedis } from "@ropeway/testkit";
import { createClient, RpcServer } from "../src/index.ts";
import { pause } from "./load.ts";

/** The resources of a process and its Redis. */
export interface Holdings {
  readonly heapBytes: number;
  readonly keys: number;
  readonly connections: number;
  /** Listeners on `process`. */
  readonly listeners: number;
  /** Timers, sockets and other active resources. */
  readonly resources: number;
}

/** The results of a run. */
export interface GrowthReport {
  readonly answered: number;
  /** Calls of missing methods that failed with METHOD_NOT_FOUND. */
  readonly refused: number;
  readonly before: Holdings;
  readonly after: Holdings;
}

const IN_FLIGHT = 1_000;
const WARM_UP = 20_000;
/** Shared lists expire within a second. */
const SETTLE_MS = 1_500;

/** Makes `calls` calls of each kind. */
export async function chaosGrowth(calls: number): Promise<GrowthReport> {
  await using server = await startRedis();
  await using redis = await connect(server.url);
  await using worker = new RpcServer(redis, { ns: "growth" });
  await worker.add("demo", { echo: ([value]: unknown[]) => value }).start();
  await using client = await createClient(redis, { ns: "growth" });
  const good = async (i: number) => (await client.call("demo.echo", [i])) === i;
  const bad = (i: number) =>
    client.call(`demo.bad${i}`, [i]).then(
      () => false,
      (error) => error.code === "METHOD_NOT_FOUND",
    );
  await count(WARM_UP, good); // fills bounded caches: statistics, routes, remembered responses
  await count(WARM_UP, bad);
  const before = await holdings(redis);
  const answered = await count(calls, good);
  const refused = await count(calls, (i) => bad(WARM_UP + i));
  return { answered, refused, before, after: await holdings(redis) };
}

/** Makes the calls, a thousand at a time. Returns the number of correct ones. */
async function count(calls: number, call: (i: number) => Promise<boolean>): Promise<number> {
  let next = 0;
  let right = 0;
  const caller = async () => {
    while (next < calls) if (await call(next++)) right += 1;
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, caller));
  return right;
}

async function holdings(redis: Redis): Promise<Holdings> {
  await pause(SETTLE_MS);
  collectGarbage();
  const [keys, clients] = await Promise.all([
    redis.send<number>(["DBSIZE"]),
    redis.send<string>(["CLIENT", "LIST"]),
  ]);
  const names = process.eventNames();
  return {
    heapBytes: process.memoryUsage().heapUsed,
    keys,
    connections: clients.trim().split("\n").length,
    listeners: names.reduce((sum, name) => sum + process.listenerCount(name), 0),
    resources: process.getActiveResourcesInfo().length,
  };
}

function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as () => void;
  gc();
  gc();
}
