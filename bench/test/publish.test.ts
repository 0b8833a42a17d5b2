import { expect, test } from "vitest";
import { judge } from "../src/bar.ts";
import type { Bench } from "../src/bench.ts";
import { sectionOf, withSection } from "../src/publish.ts";
import { resultsOf, standingOf } from "./sample-results.ts";

const BENCH: Bench = {
  name: "demo",
  title: "A demonstration",
  payload: 8,
  scenarios: [],
  bars: [{ id: "demo.fast", ratio: () => 2, op: ">=", target: 1.5 }],
};

test("a section has the plot, ratios without absolute figures, and the bars", () => {
  const results = resultsOf([
    standingOf("bare", "ceiling", [777]),
    standingOf("us", "ours", [1554]),
  ]);
  const section = sectionOf({
    bench: BENCH,
    plan: {
      rounds: 5,
      turns: 1,
      payload: 8,
      allowance: { sliceMs: 30, endMs: undefined, retryMs: 0 },
      peers: undefined,
      only: undefined,
      note: () => {},
    },
    redisVersion: "7.0.15",
    results,
    verdicts: BENCH.bars.map((bar) => judge(bar, results)),
  });
  expect(section).toContain("![A demonstration](benchmarks/demo.svg)");
  expect(section).toContain("| **us** | 2.00x (2.00-2.00) |");
  expect(section).toContain("BAR demo.fast 2.00x >= 1.5x PASS");
  expect(section).not.toMatch(/777|1554/);
});

test("publishing replaces the section of that bench and nothing else", () => {
  const page =
    "# Page\n\n<!-- bench:a -->\nold\n<!-- /bench:a -->\n\n<!-- bench:b -->\nb\n<!-- /bench:b -->\n";
  expect(withSection(page, "a", "new")).toBe(page.replace("old", "new"));
  expect(withSection("# Page\n", "a", "new")).toBe(
    "# Page\n\n<!-- bench:a -->\nnew\n<!-- /bench:a -->\n",
  );
});
