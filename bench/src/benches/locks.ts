/**
 * Measures the cost of an uncontended lock, and of a lock with 64 contenders. The contenders share 8
 * connections, as in 8 processes, so most hand-overs go from one connection to another. Peers that poll
 * send commands while the lock is held. Ropeway does not.
 */
import type { Bar, Bench, Contender, Scenario, Session } from "../bench.ts";
import { closedLoop } from "../closed-loop.ts";
import { absolute, type Results } from "../results.ts";
import type { Metric } from "../sample.ts";
import { SentCommands } from "../sent-commands.ts";
import { contend } from "./locks/contention.ts";
import { type Locker, libraries, OURS, REDLOCK, SEMAPHORE } from "./locks/lockers.ts";

const CONTENDERS = 64;
const CONNECTIONS = 8;
/** The duration of a small task, and a duration short enough to measure the hand-over. */
const LONG_HOLD_MS = 100;
const SHORT_HOLD_MS = 5;

type Work = ReturnType<Session["run"]>;

/** All libraries, with `connections` to the lock. Counts commands if `counted`. */
function contenders(
  how: { connections: number; counted: boolean },
  run: (lockers: readonly Locker[], ms: number, sent?: SentCommands) => Work,
): Contender[] {
  return libraries.map(({ name, role, open }) => ({
    name,
    role,
    open: async (stage): Promise<Session> => {
      const opened = Array.from({ length: how.connections }, () => open(stage));
      const lockers = await Promise.all(opened);
      return {
        run: async ({ ms }) => {
          const sent = how.counted ? await SentCommands.start(stage.url) : undefined;
          try {
            return await run(lockers, ms, sent);
          } finally {
            sent?.close();
          }
        },
        close: async () => void (await Promise.all(lockers.map((locker) => locker.close()))),
      };
    },
  }));
}

async function uncontended([locker]: readonly Locker[], ms: number, sent?: SentCommands) {
  const cycle = async () => (await (locker as Locker).acquire())();
  await cycle(); // loads the scripts of a new connection
  const before = await sent?.count();
  const isRight = (released: boolean) => released;
  const work = await closedLoop({ inFlight: 1, ms, latency: true, issue: cycle, isRight });
  return sent && before !== undefined ? { ...work, sent: (await sent.count()) - before } : work;
}

function contended(holdMs: number, rampMs: number, latency: "wait" | "handover"): Contender[] {
  return contenders(
    { connections: CONNECTIONS, counted: latency === "wait" },
    (lockers, ms, sent) =>
      contend({
        ...{ lockers, contenders: CONTENDERS, holdMs, rampMs, ms, latency },
        ...(sent === undefined ? {} : { sent: () => sent.count() }),
      }),
  );
}

const scenarios: Scenario[] = [
  {
    id: "locks.uncontended",
    title: "One process acquires and releases a free lock",
    measure: "latency",
    baseline: REDLOCK,
    contenders: contenders({ connections: 1, counted: false }, uncontended),
  },
  {
    id: "locks.commands",
    title: "The same, counting the commands sent",
    measure: "cost",
    baseline: REDLOCK,
    turns: 1,
    contenders: contenders({ connections: 1, counted: true }, uncontended),
  },
  {
    id: "locks.contended",
    title: `${CONTENDERS} contenders for one lock, held for ${LONG_HOLD_MS} ms`,
    measure: "cost",
    baseline: REDLOCK,
    turns: 1,
    weight: 16,
    contenders: contended(LONG_HOLD_MS, 300, "wait"),
  },
  {
    id: "locks.fairness",
    title: `${CONTENDERS} contenders for one lock, held for ${SHORT_HOLD_MS} ms: the wait`,
    measure: "latency",
    baseline: REDLOCK,
    turns: 1,
    weight: 8,
    contenders: contended(SHORT_HOLD_MS, 2 * CONTENDERS * SHORT_HOLD_MS, "wait"),
  },
  {
    id: "locks.handover",
    title: `${CONTENDERS} contenders for one lock, held for ${SHORT_HOLD_MS} ms: release to next holder`,
    measure: "latency",
    baseline: REDLOCK,
    turns: 1,
    weight: 4,
    contenders: contended(SHORT_HOLD_MS, 300, "handover"),
  },
];

function ours(results: Results, scenario: string, metric: Metric): number | undefined {
  const standing = results.scenarios
    .find((result) => result.scenario.id === scenario)
    ?.standings.find(({ name }) => name === OURS);
  return standing && absolute(standing, metric)?.median;
}

/** A metric of ours divided by its maximum. */
function bound(
  id: string,
  of: { readonly scenario: string; readonly metric: Metric; readonly most: number },
): Bar {
  const ratio = (results: Results) => {
    const value = ours(results, of.scenario, of.metric);
    return value === undefined ? undefined : value / of.most;
  };
  return { id, ratio, op: "<=", target: 1 };
}

function sentRatio(peer: string): Bar {
  const query = { scenario: "locks.contended", metric: "sent", of: OURS, to: peer } as const;
  return {
    id: `locks.contended.commands.${peer}`,
    ratio: (results) => results.ratio(query)?.median,
    op: "<=",
    target: 0.1,
  };
}

const bars: Bar[] = [
  // One command to acquire and one to release. The rest is for rare renewals and heartbeats.
  bound("locks.uncontended.commands", { scenario: "locks.commands", metric: "sent", most: 2.05 }),
  sentRatio(REDLOCK),
  sentRatio(SEMAPHORE),
  bound("locks.handover.p50", { scenario: "locks.handover", metric: "p50", most: 2_000 }),
  // Ideally a contender waits until all others have held the lock once, without delays in between.
  bound("locks.fairness.p99", {
    scenario: "locks.fairness",
    metric: "p99",
    most: 2 * CONTENDERS * SHORT_HOLD_MS * 1_000,
  }),
];

export const bench: Bench = {
  name: "locks",
  title: "Locks: free, contended, handed over",
  payload: 1,
  scenarios,
  bars,
};
