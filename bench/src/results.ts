/**
 * The results of a run. A ratio compares slices of the same round, which ran within seconds of each other.
 * The result is the median of these ratios, so a longer disturbance of the machine affects both sides.
 */
import type { Role, Scenario } from "./bench.ts";
import type { Metric, Sample } from "./sample.ts";
import { type Spread, spread } from "./statistics.ts";

/** The results of one contender. */
export interface Standing {
  readonly name: string;
  readonly role: Role;
  /** Why it did not run. */
  readonly skipped?: string;
  readonly samples: readonly Sample[];
}

/** A scenario with its standings, in the order of the declaration. */
export interface ScenarioResult {
  readonly scenario: Pick<Scenario, "id" | "title" | "measure" | "baseline">;
  readonly standings: readonly Standing[];
}

/** Selects a ratio: `of` divided by `to`. */
export interface RatioQuery {
  readonly scenario: string;
  readonly metric: Metric;
  readonly of: string;
  readonly to: string;
}

/** All results of one run. */
export class Results {
  readonly scenarios: readonly ScenarioResult[];

  constructor(scenarios: readonly ScenarioResult[]) {
    this.scenarios = scenarios;
  }

  /** Median and spread of the ratios per round. Undefined if one of the two was not measured. */
  ratio(query: RatioQuery): Spread | undefined {
    const of = this.#samples(query.scenario, query.of);
    const to = this.#samples(query.scenario, query.to);
    const ratios: number[] = [];
    for (const sample of of) {
      const value = sample.metrics[query.metric];
      const other = to.find(({ round }) => round === sample.round)?.metrics[query.metric];
      if (value !== undefined && other !== undefined && other > 0) ratios.push(value / other);
    }
    return spread(ratios);
  }

  #samples(scenario: string, contender: string): readonly Sample[] {
    const found = this.scenarios.find((result) => result.scenario.id === scenario);
    return found?.standings.find(({ name }) => name === contender)?.samples ?? [];
  }
}

/** Median and spread of a metric in its own unit. */
export function absolute({ samples }: Standing, metric: Metric): Spread | undefined {
  const values = samples.map((sample) => sample.metrics[metric]);
  return spread(values.filter((value) => value !== undefined));
}

/** The contender that ratios refer to, which is the declared one or else the first that ran. */
export function baselineOf({ scenario, standings }: ScenarioResult): string {
  const ran = standings.filter(({ samples }) => samples.length > 0).map(({ name }) => name);
  return ran.includes(scenario.baseline) ? scenario.baseline : (ran[0] ?? scenario.baseline);
}
