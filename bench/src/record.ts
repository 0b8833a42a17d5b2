/** A run as JSON: its options, the machine, every sample, and the ratios. */
import { cpus } from "node:os";
import type { Verdict } from "./bar.ts";
import type { Bench } from "./bench.ts";
import { metricsOf } from "./report.ts";
import { absolute, baselineOf, type Results, type ScenarioResult } from "./results.ts";
import type { RunPlan } from "./run.ts";

/** The data of a record. */
export interface Outcome {
  readonly bench: Bench;
  readonly plan: RunPlan;
  readonly redisVersion: string;
  readonly results: Results;
  readonly verdicts: readonly Verdict[];
}

/** The record, ready for JSON.stringify. */
export function recordOf(outcome: Outcome): object {
  const { bench, plan, redisVersion, results, verdicts } = outcome;
  return {
    bench: bench.name,
    title: bench.title,
    at: new Date().toISOString(),
    machine: {
      cpu: cpus()[0]?.model ?? "unknown",
      cores: cpus().length,
      platform: `${process.platform}-${process.arch}`,
      node: process.version,
      redis: redisVersion,
    },
    options: {
      rounds: plan.rounds,
      turns: plan.turns,
      sliceMs: plan.allowance.sliceMs,
      payload: plan.payload,
    },
    bars: verdicts,
    scenarios: results.scenarios.map((result) => scenarioRecord(result, results)),
  };
}

function scenarioRecord(result: ScenarioResult, results: Results): object {
  const baseline = baselineOf(result);
  const metrics = metricsOf(result);
  const contenders = result.standings.map((standing) => {
    const medians = metrics.map((metric) => [metric, absolute(standing, metric)]);
    const ratios = metrics.map((metric) => {
      const query = { scenario: result.scenario.id, metric, of: standing.name, to: baseline };
      return [metric, results.ratio(query)];
    });
    return {
      ...standing,
      absolute: Object.fromEntries(medians),
      ratios: Object.fromEntries(ratios),
    };
  });
  return { ...result.scenario, baseline, contenders };
}
