import type { Measure, Role } from "../src/bench.ts";
import { Results, type Standing } from "../src/results.ts";
import type { Metric, Sample } from "../src/sample.ts";

/** A sample of one round with the given metrics. */
export function sampleOf(round: number, metrics: Partial<Record<Metric, number>>): Sample {
  return { round, operations: 10, elapsedMs: 5, foreign: 0.02, repeated: 0, metrics, commands: {} };
}

/** A standing with one rate per round. */
export function standingOf(name: string, role: Role, rates: readonly number[]): Standing {
  return { name, role, samples: rates.map((rate, index) => sampleOf(index + 1, { rate })) };
}

/** Results with one scenario, `s`, compared with the first standing. */
export function resultsOf(
  standings: readonly Standing[],
  measure: Measure = "throughput",
): Results {
  const baseline = standings[0]?.name ?? "nobody";
  const scenario = { id: "s", title: "A scenario", measure, baseline };
  return new Results([{ scenario, standings }]);
}
