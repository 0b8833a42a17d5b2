import { OverloadedError } from "@ropeway/core";
import { deferred, resolveOptions } from "@ropeway/core/internal";
import { afterEach, expect, test, vi } from "vitest";
import { z } from "zod";
import { Breaker, type Permit } from "../src/client/breaker.ts";
import { Guard } from "../src/client/guard.ts";
import type { Route } from "../src/client/route.ts";
import {
  ApplicationError,
  type CallContext,
  defineService,
  StreamBrokenError,
} from "../src/index.ts";
import { clientTable } from "../src/options.ts";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();
const options = { minCalls: 2, failureRate: 0.5, halfOpenAfterMs: 20 };

afterEach(() => {
  vi.useRealTimers();
});

/** A breaker that has just opened, on a clock that stands still. */
function opened(): Breaker {
  vi.useFakeTimers({ toFake: ["performance"] });
  const breaker = new Breaker("s", options);
  for (let i = 0; i < 2; i++) breaker.leave(breaker.enter(), "failed");
  expect(breaker.state).toBe("open");
  expect(() => breaker.enter()).toThrow(expect.objectContaining({ code: "OVERLOADED" }));
  return breaker;
}

const probe = (breaker: Breaker): Permit => {
  vi.advanceTimersByTime(options.halfOpenAfterMs);
  return breaker.enter();
};

test("a cancelled probe neither closes the breaker nor keeps the next probe away", () => {
  const breaker = opened();
  breaker.leave(probe(breaker), "unknown");
  expect(breaker.state).toBe("half-open");
  breaker.leave(breaker.enter(), "succeeded");
  expect(breaker.state).toBe("closed");
});

test("a probe that never ends does not keep the breaker half-open for ever", () => {
  const breaker = opened();
  const lost = probe(breaker);
  expect(() => breaker.enter()).toThrow(expect.objectContaining({ code: "OVERLOADED" }));
  const next = probe(breaker);
  breaker.leave(next, "succeeded");
  expect(breaker.state).toBe("closed");
  breaker.leave(lost, "failed"); // it belongs to an earlier period
  expect(breaker.state).toBe("closed");
});

test("a probe that finds no place in the bulkhead does not keep the next probe away", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const given = { breaker: { ...options, minCalls: 1 }, bulkhead: { running: 1, waiting: 1 } };
  const guard = new Guard(resolveOptions(clientTable, given), () => {});
  const route = { service: "s" } as Route;
  const enter = (timeoutMs: number) =>
    guard.enter(route, { timeoutMs, idempotent: false, signal: undefined });
  (await enter(10_000))(new StreamBrokenError("m", "test")); // opens the breaker
  await expect(enter(10_000)).rejects.toMatchObject({ code: "OVERLOADED" });
  vi.advanceTimersByTime(options.halfOpenAfterMs);
  const leaveFirst = await enter(10_000); // a probe that keeps the only place
  await expect(enter(10_000)).rejects.toMatchObject({ code: "OVERLOADED" });
  vi.advanceTimersByTime(options.halfOpenAfterMs);
  // Each of them is a probe: none is refused because of the one before.
  for (let i = 0; i < 2; i++) {
    await expect(enter(1)).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
  }
  leaveFirst(undefined);
  (await enter(10_000))(undefined); // it is closed again
});

test("calls that began before the breaker opened do not count for what comes after", () => {
  const breaker = new Breaker("s", options);
  const early = breaker.enter();
  for (let i = 0; i < 2; i++) breaker.leave(breaker.enter(), "failed");
  breaker.leave(early, "succeeded");
  expect(breaker.state).toBe("open");
});

test("errors that a handler throws on purpose, and a caller's own faults, open no breaker", async () => {
  await stage.serve({
    refuse: () => {
      throw new ApplicationError(409, "taken");
    },
    wait: (_: unknown, { signal }: CallContext) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason)),
      ),
  });
  const client = await stage.client({ breaker: { minCalls: 2 } });
  for (let i = 0; i < 5; i++) {
    await expect(client.call("demo.refuse")).rejects.toMatchObject({ rpcCode: 409 });
    await expect(client.call("demo.nope")).rejects.toMatchObject({ code: "METHOD_NOT_FOUND" });
    await expect(client.call("demo.refuse", 5)).rejects.toMatchObject({ code: "INVALID_PARAMS" });
    const abort = new AbortController();
    const call = client.call("demo.wait", [], { signal: abort.signal });
    abort.abort();
    await expect(call).rejects.toMatchObject({ code: "CANCELLED" });
  }
});

test("calls that wait for a bulkhead are refused when the breaker opens meanwhile", async () => {
  let runs = 0;
  const fail = async () => {
    runs += 1;
    throw new Error("no");
  };
  await stage.serve({ fail });
  const bulkhead = { running: 1, waiting: 20 };
  const client = await stage.client({ bulkhead, breaker: { ...options, halfOpenAfterMs: 60_000 } });
  const calls = Array.from({ length: 10 }, () => client.call("demo.fail"));
  const codes = (await Promise.allSettled(calls)).map(
    (o) => (o as PromiseRejectedResult).reason.code,
  );
  expect(codes.slice(0, 2)).toEqual(["HANDLER_FAILED", "HANDLER_FAILED"]);
  expect(new Set(codes.slice(2))).toEqual(new Set(["OVERLOADED"]));
  expect(runs).toBe(2);
});

test("a breaker says when it opens", async () => {
  const states: unknown[] = [];
  const client = await stage.client({ breaker: { minCalls: 2 }, timeoutMs: 20 });
  client.on("breaker", (service, state) => states.push([service, state]));
  for (let i = 0; i < 2; i++) await client.call("nobody.x").catch(() => {});
  expect(states).toEqual([["nobody", "open"]]);
});

test("the wait for a bulkhead is a part of the timeout", async () => {
  await stage.serve({ hang: () => new Promise(() => {}) }, { closeWithinMs: 0 });
  const client = await stage.client({ bulkhead: { running: 1, waiting: 10 } });
  const abort = new AbortController();
  const first = client.call("demo.hang", [], { timeoutMs: 60_000, signal: abort.signal });
  // The first keeps its place for longer than this test may take.
  await expect(client.call("demo.hang", [], { timeoutMs: 100 })).rejects.toMatchObject({
    code: "DEADLINE_EXCEEDED",
  });
  abort.abort();
  await expect(first).rejects.toMatchObject({ code: "CANCELLED" });
});

test("a call that has waited for a bulkhead has only the rest of its timeout", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const bulkhead = { running: 1, waiting: 10 };
  const guard = new Guard(resolveOptions(clientTable, { bulkhead }), () => {});
  const route = { service: "demo", method: "slow" } as Route;
  const call = { timeoutMs: 60_000, idempotent: false, signal: undefined };
  const first = deferred<void>();
  const running = guard.run(route, call, () => first.promise);
  const left = guard.run(route, call, async (timeoutMs) => timeoutMs);
  vi.advanceTimersByTime(20_000);
  first.resolve();
  await running;
  expect(await left).toBe(40_000);
});

test("only idempotent calls are sent again after an error that may pass", async () => {
  let runs = 0;
  await stage.serve({
    busy: () => {
      runs += 1;
      throw new OverloadedError("the handler", "it has too much to do");
    },
  });
  const client = await stage.client({ attempts: 2 });
  const overloaded = { code: "OVERLOADED" };
  await expect(client.call("demo.busy", [], {})).rejects.toMatchObject(overloaded);
  expect(runs).toBe(1);
  await expect(client.call("demo.busy", [], { idempotent: true })).rejects.toMatchObject(
    overloaded,
  );
  expect(runs).toBe(3);
});

test("a slow idempotent call has the whole timeout", async () => {
  const guard = new Guard(resolveOptions(clientTable, {}), () => {});
  const route = { service: "demo", method: "slow" } as Route;
  const call = { timeoutMs: 1_000_000, idempotent: true, signal: undefined };
  const attempt = vi.fn(async () => "done");
  await expect(guard.run(route, call, attempt)).resolves.toBe("done");
  expect(attempt).toHaveBeenCalledOnce();
  const [left] = attempt.mock.calls[0] as unknown as [number];
  expect(left).toBeGreaterThan(500_000); // it was a third of the timeout
});

test("only an idempotent stream is opened again, and only before its first item", async () => {
  const runs: Record<string, number> = {};
  const fail = (name: string) => {
    runs[name] = (runs[name] ?? 0) + 1;
    if (runs[name] === 1) throw new OverloadedError("the handler", "it has too much to do");
  };
  await stage.serve({
    async *first([name]: [string]) {
      fail(name);
      yield "item";
    },
    async *second([name]: [string]) {
      yield "item";
      fail(name);
    },
  });
  const client = await stage.client();
  const overloaded = { code: "OVERLOADED" };
  const idempotent = { idempotent: true };
  await expect(all(client.stream("demo.first", ["plain"]))).rejects.toMatchObject(overloaded);
  await expect(all(client.stream("demo.first", ["again"], idempotent))).resolves.toEqual(["item"]);
  const late = all(client.stream("demo.second", ["late"], idempotent));
  await expect(late).rejects.toMatchObject(overloaded);
  expect(runs).toEqual({ plain: 1, again: 2, late: 1 });
});

test("a session has the client's breaker, and typed services", async () => {
  let runs = 0;
  const handlers = {
    fail: () => {
      runs += 1;
      throw new Error("broken");
    },
    add: ([a, b]: [number, number]) => a + b,
  };
  await stage.serve(handlers, { node: "n1", group: "g" });
  const client = await stage.client({ breaker: { minCalls: 3, failureRate: 0.6 } });
  const session = client.session("g", "c1");
  const demo = defineService("demo", {
    add: { input: z.tuple([z.number(), z.number()]), output: z.number() },
  });
  await expect(session.service(demo).add([1, 2])).resolves.toBe(3);
  const wrong = ["1", 2] as unknown as [number, number];
  await expect(session.service(demo).add(wrong)).rejects.toMatchObject({ code: "INVALID_PARAMS" });
  for (let i = 0; i < 2; i++) await expect(session.call("demo.fail")).rejects.toThrow("broken");
  await expect(session.call("demo.fail")).rejects.toMatchObject({ code: "OVERLOADED" });
  await expect(all(session.stream("demo.add", [1, 2]))).rejects.toMatchObject({
    code: "OVERLOADED",
  });
  expect(runs).toBe(2);
});
