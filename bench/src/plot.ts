/**
 * Draws the results as one SVG with a block per scenario, a row per contender and a column per plotted
 * metric. Bars are ratios to the scenario's baseline (the dashed line is 1x), whiskers the minimum and
 * maximum round. It contains both colour schemes and no script, so it can be embedded as an image.
 *
 *   scenario title   1x is the baseline
 *                       operations/s, higher is better   client CPU/op, lower is better
 *   contender           ######|--  1.02x                 #####|-   0.98x
 */
import type { Measure } from "./bench.ts";
import { showNumber } from "./report.ts";
import {
  absolute,
  baselineOf,
  type Results,
  type ScenarioResult,
  type Standing,
} from "./results.ts";
import { METRICS, type Metric } from "./sample.ts";
import type { Spread } from "./statistics.ts";

const PLOTTED: Readonly<Record<Measure, readonly Metric[]>> = {
  throughput: ["rate", "clientCpu", "redisCpu"],
  latency: ["p50", "p99", "clientCpu"],
  cost: ["clientCpu", "redisCpu", "commands", "sent"],
};

const WIDTH = 900;
const MARGIN = 20;
const NAMES = 190;
const VALUE = 62;
const ROW = 24;
const BAR = 14;

// Each colour is repeated, because renderers other than browsers do not support CSS variables.
const STYLE = `
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title, text.ours { font-weight: 600; }
  .dim { font-size: 11px; font-weight: 400; fill: #59636e; }
  .paper { fill: #ffffff; }
  rect.ours { fill: #0969da; }
  rect.peer { fill: #afb8c1; }
  rect.ceiling { fill: #d9a441; }
  .value { paint-order: stroke; stroke: #ffffff; stroke-width: 3px; }
  .whisker { stroke: #1f2328; stroke-width: 1.5; }
  .one { stroke: #59636e; stroke-dasharray: 3 3; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .dim { fill: #9198a1; }
    .paper { fill: #0d1117; }
    rect.ours { fill: #4493f8; }
    rect.peer { fill: #656c76; }
    rect.ceiling { fill: #bb8009; }
    .value { stroke: #0d1117; }
    .whisker { stroke: #e6edf3; }
    .one { stroke: #9198a1; }
  }
`;

/** The whole run as an SVG document. */
export function plot(title: string, results: Results): string {
  const parts: string[] = [text({ x: MARGIN, y: 30, is: "title", words: title })];
  parts.push(legend(50));
  let top = 66;
  for (const result of results.scenarios) {
    const block = new Block(result, results, top);
    parts.push(block.svg());
    top += block.height;
  }
  const height = top + MARGIN;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escaped(title)}">
<style>${STYLE}</style>
<rect class="paper" width="${WIDTH}" height="${height}" rx="6"/>
${parts.join("\n")}
</svg>
`;
}

/** One scenario. */
class Block {
  readonly height: number;
  readonly #result: ScenarioResult;
  readonly #results: Results;
  readonly #top: number;
  readonly #rows: readonly Standing[];
  readonly #columns: readonly Metric[];

  constructor(result: ScenarioResult, results: Results, top: number) {
    this.#result = result;
    this.#results = results;
    this.#top = top;
    this.#rows = result.standings.filter(({ samples }) => samples.length > 0);
    this.#columns = PLOTTED[result.scenario.measure].filter((metric) =>
      this.#rows.some((row) => absolute(row, metric)),
    );
    this.height = 66 + this.#rows.length * ROW;
  }

  svg(): string {
    const { title } = this.#result.scenario;
    const baseline = baselineOf(this.#result);
    const note = `<tspan class="dim" dx="10">1x is ${escaped(baseline)}</tspan>`;
    const head = `<text class="title" x="${MARGIN}" y="${this.#top + 22}">${escaped(title)}${note}</text>`;
    const names = this.#rows.map(({ name, role }, row) =>
      text({ x: MARGIN, y: this.#y(row) + 11, is: role === "ours" ? "ours" : "", words: name }),
    );
    const columns = this.#columns.map((metric, column) => this.#column(metric, column));
    return [head, ...names, ...columns].join("\n");
  }

  #y(row: number): number {
    return this.#top + 58 + row * ROW;
  }

  #column(metric: Metric, column: number): string {
    const each = (WIDTH - NAMES - MARGIN * 2) / this.#columns.length;
    const x = MARGIN + NAMES + column * each;
    const ratios = this.#rows.map((row) => this.#ratio(row, metric));
    const widest = Math.max(1, ...ratios.map((ratio) => ratio?.max ?? 0));
    const scale = (each - VALUE) / widest;
    const { label, better } = METRICS[metric];
    const one = (x + scale).toFixed(1);
    const parts = [
      text({ x, y: this.#top + 40, is: "dim", words: `${label}, ${better} is better` }),
      `<line class="one" x1="${one}" x2="${one}" y1="${this.#y(0) - 4}" y2="${this.#y(this.#rows.length) - 6}"/>`,
    ];
    for (const [row, ratio] of ratios.entries()) {
      if (ratio !== undefined) parts.push(this.#bar(ratio, { x, row, scale }));
    }
    return parts.join("\n");
  }

  #ratio(row: Standing, metric: Metric): Spread | undefined {
    const { id } = this.#result.scenario;
    const to = baselineOf(this.#result);
    return this.#results.ratio({ scenario: id, metric, of: row.name, to });
  }

  #bar(ratio: Spread, { x, row, scale }: { x: number; row: number; scale: number }): string {
    const y = this.#y(row);
    const middle = y + BAR / 2;
    const at = (value: number) => (x + value * scale).toFixed(1);
    const width = Math.max(1, ratio.median * scale).toFixed(1);
    const role = this.#rows[row]?.role;
    return [
      `<rect class="${role}" x="${x.toFixed(1)}" y="${y}" width="${width}" height="${BAR}" rx="2"/>`,
      `<line class="whisker" x1="${at(ratio.min)}" x2="${at(ratio.max)}" y1="${middle}" y2="${middle}"/>`,
      text({
        x: Number(at(ratio.max)) + 6,
        y: y + 11,
        is: "value",
        words: `${showNumber(ratio.median)}x`,
      }),
    ].join("\n");
  }
}

function legend(y: number): string {
  const items = [
    ["ours", "Ropeway"],
    ["peer", "peers"],
    ["ceiling", "ceiling: minimal code around Redis"],
  ] as const;
  let x = MARGIN;
  return items
    .map(([role, words]) => {
      const item = `<rect class="${role}" x="${x}" y="${y - 9}" width="10" height="10" rx="2"/>${text({ x: x + 15, y, is: "dim", words })}`;
      x += 40 + words.length * 6;
      return item;
    })
    .join("\n");
}

function text({ x, y, is, words }: { x: number; y: number; is: string; words: string }): string {
  return `<text x="${x.toFixed(1)}" y="${y}"${is && ` class="${is}"`}>${escaped(words)}</text>`;
}

function escaped(words: string): string {
  return words
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
