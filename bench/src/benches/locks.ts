/**
 * Locks: what an uncontended lock costs, and what 64 contenders cost. A contended operation is one
 * acquisition of the same lock, which is held for HOLD_MS; the commands that Redis counts per operation
 * are the price of waiting. Polling peers pay for it by the time that the lock is held, we do not.
 */
import { connect } from "@ropeway/core";
import { Lock } from "@ropeway/kit/lock";
import { Redis as IoRedis } from "ioredis";
import { Mutex } from "redis-semaphore";
import Redlock from "redlock";
import type { Bar, Bench, Contender, Scenario, Session } from "../bench.ts";
import { closedLoop } from "../closed-loop.ts";
import { absolute, type Results } from "../results.ts";
import type { Stage } from "../stage.ts";

const OURS = "ropeway";
const REDLOCK = "redlock";
const SEMAPHORE = "redis-semaphore";
const CONTENDERS = 64;
const HOLD_MS = 100;
const TTL_MS = 60_000;

/** Acquires and releases one lock, in one library. */
interface Locker {
  cycle(work: () => Promise<void>): Promise<boolean>;
  close(): Promise<unknown>;
}

async function ours(stage: Stage): Promise<Locker> {
  const redis = await connect(stage.url);
  const lock = new Lock(redis, "bench", { prefix: stage.prefix, ttlMs: TTL_MS, waitMs: null });
  return {
    cycle: async (work) => {
      const held = await lock.acquire();
      await work();
      return held.release();
    },
    close: () => redis.close(),
  };
}

async function redlock(stage: Stage): Promise<Locker> {
  const client = new IoRedis(stage.url);
  const lock = new Redlock([client], { retryCount: -1 });
  return {
    cycle: async (work) => {
      const held = await lock.acquire([`${stage.prefix}bench`], TTL_MS);
      await work();
      await held.release();
      return true;
    },
    close: () => client.quit(),
  };
}

async function redisSemaphore(stage: Stage): Promise<Locker> {
  const client = new IoRedis(stage.url);
  const options = { lockTimeout: TTL_MS, acquireTimeout: 600_000 };
  return {
    cycle: async (work) => {
      const mutex = new Mutex(client, `${stage.prefix}bench`, options);
      await mutex.acquire();
      await work();
      await mutex.release();
      return true;
    },
    close: () => client.quit(),
  };
}

const libraries = [
  { name: OURS, role: "ours", open: ours },
  { name: REDLOCK, role: "peer", open: redlock },
  { name: SEMAPHORE, role: "peer", open: redisSemaphore },
] as const;

function contenders(inFlight: number, holdMs: number): Contender[] {
  return libraries.map(({ name, role, open }) => ({
    name,
    role,
    open: async (stage): Promise<Session> => {
      const locker = await open(stage);
      const work = () =>
        holdMs === 0
          ? Promise.resolve()
          : new Promise<void>((resolve) => setTimeout(resolve, holdMs));
      return {
        run: ({ ms }) =>
          closedLoop({
            inFlight,
            ms,
            latency: true,
            issue: () => locker.cycle(work),
            isRight: (released) => released,
          }),
        close: async () => void (await locker.close()),
      };
    },
  }));
}

const scenarios: Scenario[] = [
  {
    id: "locks.uncontended",
    title: "One process acquires and releases a free lock",
    measure: "latency",
    baseline: REDLOCK,
    contenders: contenders(1, 0),
  },
  {
    id: "locks.contended",
    title: `${CONTENDERS} contenders for one lock, held for ${HOLD_MS} ms`,
    measure: "cost",
    baseline: REDLOCK,
    contenders: contenders(CONTENDERS, HOLD_MS),
  },
  {
    id: "locks.handover",
    title: `${CONTENDERS} contenders for one lock that is released at once`,
    measure: "throughput",
    baseline: REDLOCK,
    contenders: contenders(CONTENDERS, 0),
  },
];

function metricOf(
  results: Results,
  scenario: string,
  metric: "commands" | "p50" | "p99" | "rate",
): number | undefined {
  const standing = results.scenarios
    .find((result) => result.scenario.id === scenario)
    ?.standings.find(({ name }) => name === OURS);
  return standing && absolute(standing, metric)?.median;
}

function commandsRatio(peer: string): Bar {
  return {
    id: `locks.contended.commands.${peer}`,
    ratio: (results) =>
      results.ratio({ scenario: "locks.contended", metric: "commands", of: OURS, to: peer })
        ?.median,
    op: "<=",
    target: 0.1,
  };
}

const bars: Bar[] = [
  {
    id: "locks.uncontended.commands",
    ratio: (results) => metricOf(results, "locks.uncontended", "commands"),
    op: "<=",
    target: 2.1,
  },
  commandsRatio(REDLOCK),
  commandsRatio(SEMAPHORE),
  {
    // The time from a release to the next acquisition, over the 2 ms that are allowed.
    id: "locks.handover.p50",
    ratio: (results) => {
      const rate = metricOf(results, "locks.handover", "rate");
      return rate === undefined ? undefined : 1_000 / rate / 2;
    },
    op: "<=",
    target: 1,
  },
  {
    // A fair queue serves everybody after the same wait: p99 over p50.
    id: "locks.contended.fairness",
    ratio: (results) => {
      const p50 = metricOf(results, "locks.contended", "p50");
      const p99 = metricOf(results, "locks.contended", "p99");
      return p50 === undefined || p99 === undefined ? undefined : p99 / p50;
    },
    op: "<=",
    target: 2,
  },
];

export const bench: Bench = {
  name: "locks",
  title: "Locks: free, contended, handed over",
  payload: 1,
  scenarios,
  bars,
};
