import { expect, test } from "vitest";
import { medianSample, quietTurns, sampleOf } from "../src/sample.ts";
import { sampleOf as slice } from "./sample-results.ts";

test("figures of a slice are per operation", () => {
  const report = { operations: 200, checked: 200, elapsedMs: 50, clientCpu: 1000, workerCpu: 400 };
  const passed = {
    elapsedMs: 60,
    redisCpu: 600,
    commands: { evalsha: 200, incr: 400 },
    foreign: (cpu: number) => cpu / 10_000,
  };
  expect(sampleOf({ ...report, latency: { p50: 7, p99: 9 } }, passed, 3)).toEqual({
    round: 3,
    operations: 200,
    elapsedMs: 50,
    foreign: 0.14,
    repeated: 0,
    metrics: { rate: 4000, p50: 7, p99: 9, clientCpu: 5, workerCpu: 2, redisCpu: 3, commands: 3 },
    commands: { evalsha: 1, incr: 2 },
  });
});

test("the sample of a round has the medians of its slices and all of their operations", () => {
  const sample = medianSample([10, 30, 20].map((rate) => slice(1, { rate })));
  expect(sample.metrics).toEqual({ rate: 20 });
  expect(sample.operations).toBe(30);
});

test("a turn with a disturbed slice counts only if there is no quiet turn", () => {
  const quiet = [slice(1, { rate: 1 }), slice(1, { rate: 2 })];
  const disturbed = [slice(1, { rate: 3 }), { ...slice(1, { rate: 4 }), foreign: 0.6 }];
  expect(quietTurns([disturbed, quiet, disturbed])).toEqual([quiet]);
  expect(quietTurns([disturbed, disturbed])).toEqual([disturbed, disturbed]);
});
