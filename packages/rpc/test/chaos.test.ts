import { expect, test } from "vitest";
import { chaosKill } from "../chaos/kill.ts";
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
