/** Prints the results: one table per scenario, with ratios and absolute medians. */
import {
  absolute,
  baselineOf,
  type Results,
  type ScenarioResult,
  type Standing,
} from "./results.ts";
import { METRICS, type Metric } from "./sample.ts";
import type { Spread } from "./statistics.ts";

/** The metrics that at least one contender of the scenario has. */
export function metricsOf({ standings }: ScenarioResult): Metric[] {
  const all = Object.keys(METRICS) as Metric[];
  return all.filter((metric) => standings.some((standing) => absolute(standing, metric)));
}

/** `1.04x (0.98-1.10)`. */
export function showSpread({ median, min, max }: Spread): string {
  return `${showNumber(median)}x (${showNumber(min)}-${showNumber(max)})`;
}

/** Three digits, with k for thousands and M for millions. */
export function showNumber(value: number): string {
  if (value >= 1e6) return `${(value / 1e6).toPrecision(3)}M`;
  if (value >= 1e4) return `${(value / 1e3).toPrecision(3)}k`;
  if (value >= 100) return value.toFixed(0);
  return value.toPrecision(3);
}

/** The report of the whole run. */
export function reportText(results: Results): string {
  return results.scenarios.map((result) => scenarioText(result, results)).join("\n\n");
}

function scenarioText(result: ScenarioResult, results: Results): string {
  const { id, title } = result.scenario;
  const baseline = baselineOf(result);
  const metrics = metricsOf(result);
  const header = ["", ...metrics.map((metric) => METRICS[metric].label)];
  const rows = result.standings.map((standing) => {
    if (standing.skipped !== undefined) return [standing.name, `left out: ${standing.skipped}`];
    const cells = metrics.map((metric) => cell(standing, metric, { results, result, baseline }));
    return [standing.name, ...cells];
  });
  const title1 = `${id}: ${title}\nratios to ${baseline}: median (minimum-maximum) of the rounds, then the absolute median`;
  return `${title1}\n${table([header, ...rows])}\n${disturbance(result)}`;
}

interface Frame {
  readonly results: Results;
  readonly result: ScenarioResult;
  readonly baseline: string;
}

function cell(standing: Standing, metric: Metric, { results, result, baseline }: Frame): string {
  const value = absolute(standing, metric);
  if (value === undefined) return "-";
  const own = `${showNumber(value.median)}${METRICS[metric].unit && ` ${METRICS[metric].unit}`}`;
  const query = { scenario: result.scenario.id, metric, of: standing.name, to: baseline };
  const ratio = results.ratio(query);
  return ratio === undefined ? own : `${showSpread(ratio)} ${own}`;
}

/** The load of other processes during the scenario. */
export function disturbance({ standings }: ScenarioResult): string {
  const samples = standings.flatMap((standing) => standing.samples);
  if (samples.length === 0) return "no contender ran";
  const worst = Math.max(...samples.map(({ foreign }) => foreign));
  const repeated = samples.reduce((sum, sample) => sum + sample.repeated, 0);
  const percent = (worst * 100).toFixed(0);
  return `other processes used at most ${percent} % of the machine; ${repeated} slices were repeated`;
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(
      ...rows.map((row) => (row.length === 2 && column === 1 ? 0 : (row[column]?.length ?? 0))),
    ),
  );
  return rows
    .map((row) =>
      `  ${row.map((text, column) => text.padEnd(widths[column] ?? 0)).join("  ")}`.trimEnd(),
    )
    .join("\n");
}
