import { eventually } from "@ropeway/testkit";
import { expect, test, vi } from "vitest";
import { Breaker } from "../src/client/breaker.ts";
import { Bulkhead } from "../src/client/bulkhead.ts";
import { RetryBudget } from "../src/client/retry-budget.ts";
import { Histogram } from "../src/telemetry/histogram.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();

test("an idempotent call is sent again when an attempt is not answered, inside its deadline", async () => {
  let runs = 0;
  await stage.serve(
    {
      flaky: () => {
        runs += 1;
        return runs === 1 ? new Promise(() => {}) : "answered";
      },
    },
    { closeWithinMs: 10 },
  );
  const client = await stage.client({ attemptTimeoutMs: 200 });
  await expect(client.call("demo.flaky", [], { idempotent: true })).resolves.toBe("answered");
  runs = 0;
  await expect(client.call("demo.flaky", [], { timeoutMs: 400 })).rejects.toMatchObject({
    code: "DEADLINE_EXCEEDED",
  });
  expect(runs).toBeLessThanOrEqual(1);
});

test("an error of the handler is not retried", async () => {
  let runs = 0;
  await stage.serve({
    fail: () => {
      runs += 1;
      throw new Error("no");
    },
  });
  const client = await stage.client();
  await expect(client.call("demo.fail", [], { idempotent: true })).rejects.toThrow("no");
  expect(runs).toBe(1);
});

test("retries stop when too many calls fail", () => {
  const budget = new RetryBudget();
  const granted = Array.from({ length: 8 }, () => budget.failed());
  expect(granted).toEqual([true, true, true, true, false, false, false, false]);
  for (let i = 0; i < 60; i++) budget.succeeded();
  expect(budget.failed()).toBe(true);
});

test("a breaker opens at its failure rate, lets one probe through, and closes again", () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const breaker = new Breaker("s", { minCalls: 4, failureRate: 0.5, halfOpenAfterMs: 30 });
  for (const outcome of ["succeeded", "failed", "succeeded", "failed"] as const) {
    breaker.leave(breaker.enter(), outcome);
  }
  expect(breaker.state).toBe("open");
  expect(() => breaker.enter()).toThrow(expect.objectContaining({ code: "OVERLOADED" }));
  vi.advanceTimersByTime(30);
  const probe = breaker.enter();
  expect(breaker.state).toBe("half-open");
  expect(() => breaker.enter()).toThrow(expect.objectContaining({ code: "OVERLOADED" }));
  breaker.leave(probe, "succeeded");
  expect(breaker.state).toBe("closed");
  vi.useRealTimers();
});

test("a client's breaker refuses calls to a service that keeps failing, and only to that", async () => {
  await stage.serve({
    fail: () => {
      throw new Error("no");
    },
  });
  const client = await stage.client({ breaker: { minCalls: 3 } });
  for (let i = 0; i < 3; i++) await expect(client.call("demo.fail")).rejects.toThrow("no");
  await expect(client.call("demo.fail")).rejects.toMatchObject({ code: "OVERLOADED" });
  const other = client.call("other.echo", [], { timeoutMs: 50 });
  await expect(other).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
});

test("a bulkhead lets some run, some wait, and refuses the rest", async () => {
  const bulkhead = new Bulkhead("s", { running: 2, waiting: 1 });
  await bulkhead.enter({ timeoutMs: 60_000 });
  await bulkhead.enter({ timeoutMs: 60_000 });
  const third = bulkhead.enter({ timeoutMs: 60_000 });
  await expect(bulkhead.enter({ timeoutMs: 60_000 })).rejects.toMatchObject({ code: "OVERLOADED" });
  bulkhead.leave();
  await third;
  const abort = new AbortController();
  const waiting = bulkhead.enter({ timeoutMs: 60_000, signal: abort.signal });
  abort.abort();
  await expect(waiting).rejects.toMatchObject({ code: "CANCELLED" });
});

test("a call to a service without a live worker fails at once if told so", async () => {
  const client = await stage.client({ whenDown: "fail" });
  await expect(client.call("demo.echo", [1])).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await stage.serve({ echo: ([value]: unknown[]) => value });
  await eventually(async () => {
    await expect(client.call("demo.echo", [1])).resolves.toBe(1);
  });
});

test("a call that ended before the latest one still counts in the rate", () => {
  const histogram = new Histogram();
  const at = 50_000_000; // later than now: the statistics look back from the latest call
  histogram.record(1, false, at);
  histogram.record(1, false, at + 1_000);
  histogram.record(1, false, at); // counted later than it ended
  histogram.record(1, false, at + 2_000);
  expect(histogram.snapshot()).toMatchObject({ calls: 4, perSecond: 0.3 });
});

test("statistics tell calls, errors and percentiles", async () => {
  const histogram = new Histogram();
  for (let ms = 1; ms <= 100; ms++) histogram.record(ms, ms > 90);
  const { calls, errors, p50Ms, p99Ms } = histogram.snapshot();
  expect({ calls, errors }).toEqual({ calls: 100, errors: 10 });
  expect(p50Ms).toBeGreaterThan(45);
  expect(p50Ms).toBeLessThan(55);
  expect(p99Ms).toBeGreaterThan(90);
  expect(p99Ms).toBeLessThan(109);
  await stage.serve({ echo: ([value]: unknown[]) => value }, { heartbeatMs: 50 });
  const client = await stage.client();
  await client.call("demo.echo", [1]);
  await eventually(async () => {
    const { methods, services } = await client.stats();
    expect(methods["demo.echo"]).toMatchObject({ calls: 1, errors: 0 });
    expect(services[0]?.workers[0]?.methods?.echo).toMatchObject({ calls: 1 });
  });
});

test("a batch settles each call on its own", async () => {
  await stage.serve({
    echo: ([value]: unknown[]) => value,
    fail: () => {
      throw new Error("no");
    },
  });
  const client = await stage.client();
  const outcomes = await client.batch([
    { target: "demo.echo", params: [1] },
    { target: "demo.fail" },
    { target: "demo.echo", params: [2] },
  ]);
  expect(outcomes).toMatchObject([
    { status: "fulfilled", value: 1 },
    { status: "rejected" },
    { status: "fulfilled", value: 2 },
  ]);
});
