import { expect, test } from "vitest";
import { parseCommandStats, passage, type Reading } from "../src/meter.ts";

const INFO = `# Commandstats\r
cmdstat_evalsha:calls=12,usec=30,usec_per_call=2.50,rejected_calls=0,failed_calls=0\r
cmdstat_config|get:calls=3,usec=1,usec_per_call=0.33\r
`;

function reading(at: number, commands: Record<string, number>): Reading {
  const cpu = { redisCpu: at * 100, harnessCpu: at * 10, machineCpu: at * 1000 };
  return { at, ...cpu, commands: new Map(Object.entries(commands)) };
}

test("calls are counted by command and by subcommand", () => {
  expect([...parseCommandStats(INFO)]).toEqual([
    ["evalsha", 12],
    ["config|get", 3],
  ]);
});

test("a passage counts the commands between two readings, without the meter's own INFO", () => {
  const passed = passage(
    reading(0, { set: 5, info: 1 }),
    reading(100, { set: 9, get: 2, info: 2 }),
  );
  expect(passed.commands).toEqual({ set: 4, get: 2 });
  expect(passed.redisCpu).toBe(10_000);
});

test("foreign CPU time is the machine's minus that of Redis, contender and harness, and never negative", () => {
  const passed = passage(reading(0, {}), reading(100, {}));
  const cores = (100_000 - 10_000 - 1_000 - 50_000) / passed.foreign(50_000) / 100_000;
  expect(cores).toBeGreaterThanOrEqual(1);
  expect(Math.round(cores)).toBeCloseTo(cores);
  expect(passed.foreign(200_000)).toBe(0);
});
