import { expect, test } from "vitest";
import { judge } from "../src/bar.ts";
import { loadBench } from "../src/catalogue.ts";
import { Run } from "../src/run.ts";

test("a run measures every contender in every round, on a real Redis", {
  timeout: 60_000,
}, async () => {
  const bench = await loadBench("core");
  const notes: string[] = [];
  const run = await Run.start(bench, {
    rounds: 2,
    turns: 2,
    payload: 10,
    allowance: { sliceMs: 30, endMs: undefined, retryMs: 0 },
    peers: [],
    only: "core.send.c100",
    note: (sentence) => notes.push(sentence),
  });
  try {
    const results = await run.results();
    expect(results.scenarios.map(({ scenario }) => scenario.id)).toEqual([
      "core.send.c100",
      "core.send.c1000",
    ]);
    for (const { standings } of results.scenarios) {
      for (const { samples } of standings) {
        expect(samples.map(({ round }) => round)).toEqual([1, 2]);
        expect(samples[0]?.metrics.commands).toBeCloseTo(1, 1);
        expect(samples[0]?.metrics.rate).toBeGreaterThan(0);
      }
    }
    // The script scenarios did not run, so no bar about them passes.
    expect(bench.bars.map((bar) => judge(bar, results).outcome)).not.toContain("PASS");
    expect(notes).toHaveLength(2);
  } finally {
    await run.close();
  }
});
