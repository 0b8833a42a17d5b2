import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { Breaker } from "../src/client/breaker.ts";
import { ApplicationError, type CallContext } from "../src/index.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();
const options = { minCalls: 2, failureRate: 0.5, halfOpenAfterMs: 20 };

function opened(): Breaker {
  const breaker = new Breaker("s", options);
  for (let i = 0; i < 2; i++) breaker.leave(breaker.enter(), "failed");
  expect(breaker.state).toBe("open");
  return breaker;
}

const probe = async (breaker: Breaker) => {
  let permit = { period: -1, probe: false };
  await eventually(() => {
    permit = breaker.enter();
  });
  return permit;
};

test("a cancelled probe neither closes the breaker nor keeps the next probe away", async () => {
  const breaker = opened();
  breaker.leave(await probe(breaker), "unknown");
  expect(breaker.state).toBe("half-open");
  breaker.leave(await probe(breaker), "succeeded");
  expect(breaker.state).toBe("closed");
});

test("a probe that never ends does not keep the breaker half-open for ever", async () => {
  const breaker = opened();
  const lost = await probe(breaker);
  const next = await probe(breaker);
  breaker.leave(next, "succeeded");
  expect(breaker.state).toBe("closed");
  breaker.leave(lost, "failed"); // it belongs to an earlier period
  expect(breaker.state).toBe("closed");
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
  const first = client.call("demo.hang", [], { timeoutMs: 2_000 });
  const began = performance.now();
  await expect(client.call("demo.hang", [], { timeoutMs: 100 })).rejects.toMatchObject({
    code: "DEADLINE_EXCEEDED",
  });
  expect(performance.now() - began).toBeLessThan(1_800);
  await first.catch(() => {});
});

test("a slow idempotent call has the whole timeout", async () => {
  let runs = 0;
  await stage.serve({
    slow: async () => {
      runs += 1;
      await new Promise((resolve) => setTimeout(resolve, 700));
      return "done";
    },
  });
  const client = await stage.client();
  const call = client.call("demo.slow", [], { timeoutMs: 1_500, idempotent: true });
  await expect(call).resolves.toBe("done"); // a third of 1500 ms was too short
  expect(runs).toBe(1);
});
