/** The figures of one contender for a slice and for a round. */
import type { AgentReport } from "./agent.ts";
import type { Passage } from "./meter.ts";
import { median } from "./statistics.ts";

/** The metrics of every slice, per operation except for the rate. */
export const METRICS = {
  rate: { label: "operations/s", unit: "op/s", better: "higher" },
  p50: { label: "median latency", unit: "µs", better: "lower" },
  p99: { label: "p99 latency", unit: "µs", better: "lower" },
  clientCpu: { label: "client CPU/op", unit: "µs", better: "lower" },
  workerCpu: { label: "worker CPU/op", unit: "µs", better: "lower" },
  redisCpu: { label: "Redis CPU/op", unit: "µs", better: "lower" },
  commands: { label: "Redis commands/op", unit: "", better: "lower" },
  sent: { label: "commands sent/op", unit: "", better: "lower" },
  memory: { label: "Redis memory/op", unit: "bytes", better: "lower" },
} as const;

export type Metric = keyof typeof METRICS;

/** The figures of one contender in one round, as medians of its slices. */
export interface Sample {
  readonly round: number;
  readonly operations: number;
  readonly elapsedMs: number;
  /** The maximum share of the machine that other processes used meanwhile. */
  readonly foreign: number;
  /** The number of slices that were discarded because of other processes. */
  readonly repeated: number;
  readonly metrics: Readonly<Partial<Record<Metric, number>>>;
  /** Commands per operation by name. */
  readonly commands: Readonly<Record<string, number>>;
}

/** The figures of one slice. */
export function sampleOf(report: AgentReport, passed: Passage, round: number): Sample {
  const { operations, elapsedMs, latency, clientCpu, workerCpu, bytes, sent } = report;
  const calls = Object.entries(passed.commands);
  const total = calls.reduce((sum, [, count]) => sum + count, 0);
  return {
    round,
    operations,
    elapsedMs,
    foreign: passed.foreign(clientCpu + workerCpu),
    repeated: 0,
    metrics: {
      rate: (operations / elapsedMs) * 1000,
      ...latency,
      clientCpu: clientCpu / operations,
      ...(workerCpu > 0 ? { workerCpu: workerCpu / operations } : {}),
      redisCpu: passed.redisCpu / operations,
      commands: total / operations,
      ...(sent === undefined ? {} : { sent: sent / operations }),
      ...(bytes === undefined ? {} : { memory: bytes / operations }),
    },
    commands: Object.fromEntries(calls.map(([name, count]) => [name, count / operations])),
  };
}

/** A slice is disturbed if other processes used more than this share of the machine. */
export const FOREIGN_LIMIT = 0.1;

/** The turns without a disturbed slice, or all turns if there are none. */
export function quietTurns(turns: readonly (readonly Sample[])[]): readonly (readonly Sample[])[] {
  const quiet = turns.filter((turn) => turn.every(({ foreign }) => foreign <= FOREIGN_LIMIT));
  return quiet.length > 0 ? quiet : turns;
}

/** Combines the slices of one round into one sample. */
export function medianSample(slices: readonly Sample[]): Sample {
  const sum = (of: (slice: Sample) => number) =>
    slices.reduce((total, slice) => total + of(slice), 0);
  return {
    round: slices[0]?.round ?? 0,
    operations: sum(({ operations }) => operations),
    elapsedMs: sum(({ elapsedMs }) => elapsedMs),
    foreign: Math.max(...slices.map(({ foreign }) => foreign)),
    repeated: sum(({ repeated }) => repeated),
    metrics: medians(slices.map(({ metrics }) => metrics)),
    commands: medians(slices.map(({ commands }) => commands)),
  };
}

/** Medians by name, over the samples that have the name. */
function medians<N extends string>(
  figures: readonly Readonly<Partial<Record<N, number>>>[],
): Record<N, number> {
  const names = new Set(figures.flatMap((of) => Object.keys(of) as N[]));
  const entries = [...names].map((name) => {
    const values = figures.map((of) => of[name]).filter((value) => value !== undefined);
    return [name, median(values)];
  });
  return Object.fromEntries(entries) as Record<N, number>;
}
