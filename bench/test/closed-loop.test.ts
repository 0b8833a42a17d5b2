import { expect, test } from "vitest";
import { closedLoop, latencyOf } from "../src/closed-loop.ts";

const later = () => new Promise<void>((resolve) => setImmediate(resolve));

test("a loop never has more than `inFlight` operations in flight and waits for all of them", async () => {
  let flying = 0;
  let most = 0;
  let landed = 0;
  const work = await closedLoop({
    inFlight: 3,
    ms: 20,
    issue: async () => {
      most = Math.max(most, ++flying);
      await later();
      flying--;
      return ++landed;
    },
    isRight: () => true,
  });
  expect(most).toBe(3);
  expect(flying).toBe(0);
  expect(work).toEqual({ operations: landed, checked: landed, latency: undefined });
});

test("wrong results do not count as checked", async () => {
  let turn = 0;
  const issue = async () => {
    await later();
    return turn++;
  };
  const work = await closedLoop({ inFlight: 1, ms: 10, issue, isRight: (n) => n !== 0 });
  expect(work.operations - work.checked).toBe(1);
});

test("the first failing operation ends the loop with its error", async () => {
  const issue = async () => {
    throw new Error("refused");
  };
  await expect(closedLoop({ inFlight: 2, ms: 10, issue, isRight: () => true })).rejects.toThrow(
    "refused",
  );
});

test("latencies are percentiles in microseconds, measured only if requested", async () => {
  const work = await closedLoop({
    inFlight: 2,
    ms: 10,
    latency: true,
    issue: later,
    isRight: () => true,
  });
  expect(work.latency?.p99).toBeGreaterThanOrEqual(work.latency?.p50 ?? Number.POSITIVE_INFINITY);
  expect(latencyOf([3, 1, 2])).toEqual({ p50: 2000, p99: 3000 });
});
