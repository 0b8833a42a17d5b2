/**
 * Publishes a run as docs/benchmarks/<name>.json and .svg, and as a section in docs/benchmarks.md. The
 * section is generated between two marks:
 *
 *   <!-- bench:core -->  heading, plot, tables of ratios, bars  <!-- /bench:core -->
 *
 * It has ratios only, because absolute figures depend on the machine.
 */
import { readFile, writeFile } from "node:fs/promises";
import { barLine } from "./bar.ts";
import type { Outcome } from "./record.ts";
import { disturbance, metricsOf, showSpread } from "./report.ts";
import { baselineOf, type Results, type ScenarioResult, type Standing } from "./results.ts";
import { METRICS, type Metric } from "./sample.ts";

/** Writes the section into the page at `file`. */
export async function publishSection(file: URL, outcome: Outcome): Promise<void> {
  const page = await readFile(file, "utf8");
  await writeFile(file, withSection(page, outcome.bench.name, sectionOf(outcome)));
}

/** Replaces the section of that name in the page, or appends it. */
export function withSection(page: string, name: string, section: string): string {
  const [begin, end] = [`<!-- bench:${name} -->`, `<!-- /bench:${name} -->`];
  const marked = `${begin}\n${section}\n${end}`;
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  if (from < 0 || to < from) return `${page.trimEnd()}\n\n${marked}\n`;
  return page.slice(0, from) + marked + page.slice(to + end.length);
}

/** A bench's section in Markdown. */
export function sectionOf({ bench, plan, redisVersion, results, verdicts }: Outcome): string {
  const setting = `Node ${process.version}, Redis ${redisVersion}, ${plan.rounds} rounds, ${plan.payload} bytes of payload.`;
  return [
    `## ${bench.title}`,
    `![${bench.title}](benchmarks/${bench.name}.svg)`,
    `\`npm run bench -- ${bench.name}\` · ${setting} [All samples](benchmarks/${bench.name}.json)`,
    ...results.scenarios.map((result) => scenarioSection(result, results)),
    `\`\`\`text\n${verdicts.map(barLine).join("\n")}\n\`\`\``,
  ].join("\n\n");
}

function scenarioSection(result: ScenarioResult, results: Results): string {
  const { id, title } = result.scenario;
  const baseline = baselineOf(result);
  const metrics = metricsOf(result);
  const ratio = (of: string, metric: Metric) => {
    const found = results.ratio({ scenario: id, metric, of, to: baseline });
    return found === undefined ? "" : showSpread(found);
  };
  const row = ({ name, role, skipped }: Standing) => {
    const cells = metrics.map((metric) => ratio(name, metric));
    const shown = role === "ours" ? `**${name}**` : name;
    return line([shown, ...(skipped === undefined ? cells : [`left out: ${skipped}`])]);
  };
  const table = [
    line([`1x is ${baseline}`, ...metrics.map((metric) => METRICS[metric].label)]),
    line(["---", ...metrics.map(() => "---")]),
    ...result.standings.map(row),
  ];
  return `**${title}** (\`${id}\`; ${disturbance(result)})\n\n${table.join("\n")}`;
}

function line(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}
