/**
 * Measures adding, processing, both at once, the time from add to start on an idle queue, and the memory of
 * a delayed job. Compares ours with BullMQ on its default client (ioredis) and on its fastest (node-redis),
 * and with bee-queue. The handler does nothing. All remove completed jobs, which is our default. The peers
 * get an option for it, because their default of keeping all jobs makes them slower.
 */
import type { Bar, Bench, Contender, Role, Scenario, Session, Slice, Work } from "../bench.ts";
import { closedLoop, latencyOf } from "../closed-loop.ts";
import type { Remote } from "../remote.ts";
import type { Metric } from "../sample.ts";
import type { Stage } from "../stage.ts";
import {
  DEEP,
  FEW_GROUPS,
  MANY_GROUPS,
  SHALLOW,
  waitingGroups,
  waitingJobs,
} from "./jobs/backlog.ts";
import { Control } from "./jobs/control.ts";
import type { JobData, System } from "./jobs/system.ts";
import { BARE, BEE, BULL, BULL_BEST, OURS, SYSTEMS } from "./jobs/systems.ts";
import type { WorkerConfig } from "./jobs/worker.ts";

const BULK = 1_000;
const DELAYED = 5_000;

/** Numbers the jobs and sums up their numbers. */
class Feeder {
  count = 0;
  sum = 0;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  next(): JobData {
    this.count += 1;
    this.sum += this.count;
    return { n: this.count, at: Number(process.hrtime.bigint()) / 1e6, text: this.#text };
  }

  many(n: number): JobData[] {
    return Array.from({ length: n }, () => this.next());
  }
}

/** The objects that a slice uses. */
interface Tools {
  readonly system: System;
  readonly stage: Stage;
  readonly control: Control;
}

/** A contender that opens its system. `make` returns the work of a slice. */
function contender(
  name: string,
  make: (tools: Tools) => Promise<Omit<Session, "close">> | Omit<Session, "close">,
): Contender {
  const role: Role = name === OURS ? "ours" : name === BARE ? "ceiling" : "peer";
  return {
    name,
    role,
    open: async (stage) => {
      const control = await Control.open(stage);
      const system = await openSystem(name, stage);
      return {
        ...(await make({ system, stage, control })),
        close: async () => {
          await system.close();
          await control.close();
        },
      };
    },
  };
}

function openSystem(name: string, stage: Stage): Promise<System> {
  return (SYSTEMS[name] as (typeof SYSTEMS)[string])(stage);
}

/** Adds jobs with 100 in flight. The queue is emptied before each slice. */
const adding = ({ system, stage, control }: Tools) => {
  const feeder = new Feeder(stage.text);
  return {
    prepare: () => control.clear(),
    run: ({ ms }: Slice) =>
      closedLoop({
        inFlight: 100,
        ms,
        issue: () => system.add(feeder.next()),
        isRight: (job) => job !== undefined,
      }),
  };
};

const addingBulk = ({ system, stage, control }: Tools) => {
  const feeder = new Feeder(stage.text);
  return {
    prepare: () => control.clear(),
    run: async ({ ms }: Slice): Promise<Work> => {
      const until = performance.now() + ms;
      let operations = 0;
      while (performance.now() < until) {
        await system.addBulk(feeder.many(BULK));
        operations += BULK;
      }
      return { operations, checked: operations };
    },
  };
};

/** Empties a full queue. The number of jobs depends on the rate of the previous slice. */
function processing(concurrency: number) {
  return ({ system, stage, control }: Tools) => {
    let perMs = 5;
    let expected = { count: 0, sum: 0 };
    return {
      prepare: async ({ ms }: Slice) => {
        await control.clear();
        const feeder = new Feeder(stage.text);
        const jobs = Math.ceil((perMs * ms) / BULK) * BULK;
        for (let i = 0; i < jobs; i += BULK) await system.addBulk(feeder.many(BULK));
        expected = { count: feeder.count, sum: feeder.sum };
      },
      run: async (): Promise<Work> => {
        let [count, sum, firstAt] = [0, 0, 0];
        let crew: { close(): Promise<void> } | undefined;
        await new Promise<void>((resolve, reject) => {
          const onJob = (data: JobData) => {
            sum += data.n;
            if (++count === 1) firstAt = performance.now();
            if (count === expected.count) resolve();
          };
          system.work(concurrency, onJob).then((opened) => {
            crew = opened;
          }, reject);
        });
        // From the first job to the last, without the time to connect.
        const elapsedMs = performance.now() - firstAt;
        await crew?.close();
        perMs = Math.max(2, expected.count / elapsedMs);
        return { operations: count, checked: sum === expected.sum ? count : 0, elapsedMs };
      },
    };
  };
}

interface Seen {
  readonly count: number;
  readonly sum: number;
  readonly latencies: number[];
}

function forkWorker(name: string, stage: Stage, concurrency: number): Promise<Remote> {
  const { url, host, port, prefix } = stage;
  const config: WorkerConfig = { system: name, place: { url, host, port, prefix }, concurrency };
  return stage.fork(new URL("./jobs/worker.ts", import.meta.url), config);
}

/** Waits until the worker process has handled all added jobs. */
async function caughtUp(worker: Remote, feeder: Feeder): Promise<Seen> {
  const latencies: number[] = [];
  for (;;) {
    const seen = await worker.ask<Seen>("seen");
    for (const latency of seen.latencies) latencies.push(latency);
    if (seen.count >= feeder.count) return { ...seen, latencies };
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** Adds jobs with 100 in flight while another process works with concurrency 50, until all jobs are done. */
function endToEnd(name: string) {
  return async ({ system, stage }: Tools) => {
    const worker = await forkWorker(name, stage, 50);
    const feeder = new Feeder(stage.text);
    return {
      run: async ({ ms }: Slice): Promise<Work> => {
        const startedAt = performance.now();
        const work = await closedLoop({
          inFlight: 100,
          ms,
          issue: () => system.add(feeder.next()),
          isRight: (job) => job !== undefined,
        });
        const seen = await caughtUp(worker, feeder);
        const right = seen.sum === feeder.sum && seen.count === feeder.count;
        return {
          operations: work.operations,
          checked: right ? work.checked : 0,
          elapsedMs: performance.now() - startedAt,
        };
      },
    };
  };
}

/** Measures the time from add() to the handler, with one job every few ms on an idle queue. */
function idle(name: string) {
  return async ({ system, stage }: Tools) => {
    const worker = await forkWorker(name, stage, 1);
    const feeder = new Feeder(stage.text);
    return {
      run: async ({ ms }: Slice): Promise<Work> => {
        const until = performance.now() + ms;
        const latencies: number[] = [];
        while (performance.now() < until) {
          await system.add(feeder.next());
          const seen = await caughtUp(worker, feeder);
          latencies.push(...seen.latencies);
          await new Promise((resolve) => setTimeout(resolve, 3));
        }
        return {
          operations: latencies.length,
          checked: latencies.length,
          latency: latencyOf(latencies),
        };
      },
    };
  };
}

/** Measures the Redis memory of a delayed job in bytes. */
const remembering = ({ system, stage, control }: Tools) => {
  const feeder = new Feeder(stage.text);
  return {
    prepare: () => control.clear(),
    run: async (): Promise<Work> => {
      const before = await control.memory();
      for (let i = 0; i < DELAYED; i += BULK) await system.addDelayed(feeder.many(BULK), 3_600_000);
      const bytes = (await control.memory()) - before;
      return { operations: DELAYED, checked: DELAYED, bytes };
    },
  };
};

const ALL = [OURS, BULL, BULL_BEST, BEE, BARE];
const LIBRARIES = [OURS, BULL, BULL_BEST, BEE];

const scenarios: Scenario[] = [
  {
    id: "jobs.add.c100",
    title: "add(), 100 in flight",
    measure: "throughput",
    baseline: BULL,
    contenders: ALL.map((name) => contender(name, adding)),
  },
  {
    id: "jobs.addbulk",
    title: "addBulk() of 1,000",
    measure: "throughput",
    baseline: BULL,
    contenders: ALL.map((name) => contender(name, addingBulk)),
  },
  {
    id: "jobs.process.c100",
    title: "Emptying a full queue, concurrency 100",
    measure: "throughput",
    baseline: BULL,
    contenders: ALL.map((name) => contender(name, processing(100))),
  },
  {
    id: "jobs.e2e",
    title: "Adding (100 in flight) while another process works (concurrency 50)",
    measure: "throughput",
    baseline: BULL,
    contenders: ALL.map((name) => contender(name, endToEnd(name))),
  },
  {
    id: "jobs.idle",
    title: "Idle queue: from add() to the handler",
    measure: "latency",
    weight: 5, // with one job at a time, a short slice has too few jobs
    baseline: BULL,
    contenders: LIBRARIES.map((name) => contender(name, idle(name))),
  },
  {
    id: "jobs.memory.delayed",
    title: "Redis memory of a delayed job",
    measure: "cost",
    baseline: BULL,
    contenders: [OURS, BULL, BEE].map((name) => contender(name, remembering)),
  },
  {
    id: "jobs.depth",
    title: "Adding and processing behind a backlog",
    measure: "cost",
    baseline: SHALLOW,
    contenders: [waitingJobs(SHALLOW, 1_000), waitingJobs(DEEP, 1_000_000)],
  },
  {
    id: "jobs.groups",
    title: "Adding and processing while jobs of many groups wait",
    measure: "cost",
    baseline: FEW_GROUPS,
    contenders: [waitingGroups(FEW_GROUPS, 1_000), waitingGroups(MANY_GROUPS, 100_000)],
  },
];

interface Claim {
  readonly id: string;
  readonly scenario: string;
  readonly metric: Metric;
  readonly to: string;
  readonly op: Bar["op"];
  readonly target: number;
}

function bar({ id, scenario, metric, to, op, target }: Claim): Bar {
  const ratio: Bar["ratio"] = (results) =>
    results.ratio({ scenario, metric, of: OURS, to })?.median;
  return { id, ratio, op, target };
}

const faster = (id: string, scenario: string, [to, target]: readonly [string, number]): Bar =>
  bar({ id, scenario, metric: "rate", to, op: ">=", target });

/** The Redis CPU time of a job does not grow with the number of waiting jobs. */
const flat = (scenario: string, [of, to]: readonly [string, string]): Bar => ({
  id: `${scenario}.rediscpu`,
  ratio: (results) => results.ratio({ scenario, metric: "redisCpu", of, to })?.median,
  op: "<=",
  target: 1.5,
});

/** With 2 KB of data the transfer dominates, so the claim compares ours with the bare scripts. */
const nearBare = (scenario: string): Bar => ({
  ...faster(`${scenario}.bare`, scenario, [BARE, 0.9]),
  payload: 2_048,
});

export const bench: Bench = {
  name: "jobs",
  title: "Jobs: ours, BullMQ 6 and bee-queue",
  payload: 100,
  scenarios,
  bars: [
    faster("jobs.add.c100", "jobs.add.c100", [BULL, 3]),
    faster("jobs.add.c100.best", "jobs.add.c100", [BULL_BEST, 2]),
    faster("jobs.addbulk", "jobs.addbulk", [BULL, 5]),
    faster("jobs.process.c100", "jobs.process.c100", [BULL, 5]),
    faster("jobs.process.c100.best", "jobs.process.c100", [BULL_BEST, 3]),
    faster("jobs.e2e", "jobs.e2e", [BULL, 4]),
    bar({
      id: "jobs.life.rediscpu",
      scenario: "jobs.e2e",
      metric: "redisCpu",
      to: BULL,
      op: "<=",
      target: 0.3,
    }),
    bar({
      id: "jobs.life.commands",
      scenario: "jobs.e2e",
      metric: "commands",
      to: BULL,
      op: "<=",
      target: 12 / 32,
    }),
    bar({
      id: "jobs.idle.p50",
      scenario: "jobs.idle",
      metric: "p50",
      to: BULL,
      op: "<=",
      target: 0.5,
    }),
    bar({
      id: "jobs.memory.delayed",
      scenario: "jobs.memory.delayed",
      metric: "memory",
      to: BULL,
      op: "<=",
      target: 0.5,
    }),
    flat("jobs.depth", [DEEP, SHALLOW]),
    flat("jobs.groups", [MANY_GROUPS, FEW_GROUPS]),
    ...["jobs.add.c100", "jobs.addbulk", "jobs.process.c100", "jobs.e2e"].map(nearBare),
  ],
};
