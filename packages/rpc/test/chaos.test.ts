import { expect, test } from "vitest";
import { chaosFaults } from "../chaos/faults.ts";
import { chaosKill } from "../chaos/kill.ts";
import { chaosMigration } from "../chaos/migration.ts";
import { longStream } from "../chaos/stream.ts";

test("durable calls are all answered, once each, while their workers are killed", async () => {
  const report = await chaosKill({
    calls: 2_000,
    workers: 2,
    killEveryMs: 300,
    inFlight: 50,
    callMs: 20,
  });
  expect(report).toMatchObject({ accepted: 2_000, completed: 2_000, wrong: 0 });
  expect(report.extraRuns).toBeLessThanOrEqual(report.kills * 64);
}, 90_000);

test("a stream of a hundred thousand chunks arrives whole, in order, in little memory", async () => {
  const report = await longStream(100_000);
  expect(report).toMatchObject({ received: 100_000, inOrder: true });
  expect(report.redisMib).toBeLessThan(64);
}, 60_000);

test("outages, a stopped worker, lost data and refused writes: at most once, by the deadline, epochs grow", async () => {
  const report = await chaosFaults(
    [
      { kind: "outage", ms: 1_500 },
      { kind: "stop", ms: 2_000 },
      { kind: "refuse", ms: 500 },
      { kind: "flush" },
    ],
    12,
  );
  expect(report).toMatchObject({ doubled: 0, late: 0, backwards: 0, broken: 0 });
  expect(report.ok).toBeGreaterThan(50);
}, 120_000);

test("calls are answered while the slot of their namespace moves to another node", async () => {
  const { during, failed } = await chaosMigration(2_000);
  expect(failed).toBe(0);
  expect(during).toBeGreaterThan(5);
}, 90_000);
