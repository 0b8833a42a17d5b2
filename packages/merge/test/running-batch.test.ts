// The signal of a handler is made when it is read, and must look as if it had always been there.
import { ClosedError, TimeoutError } from "@ropeway/core";
import { expect, test } from "vitest";
import { RunningBatch } from "../src/delivery/running-batch.ts";

const running = (leftMs: number) =>
  new RunningBatch({ key: "k", leftMs, report: (error) => expect(error).toBeUndefined() });

test("the signal is the same at every read, and in a copy of the object", () => {
  const batch = running(60_000);
  const { signal } = batch;
  expect(batch.signal).toBe(signal);
  expect({ ...batch }).toEqual({ leftMs: 60_000, signal });
  expect(signal.aborted).toBe(false);
  batch.abort(new ClosedError("the dispatcher"));
  expect(signal.reason).toBeInstanceOf(ClosedError);
});

test("a signal that is read after the abort is aborted with the same reason", () => {
  const batch = running(60_000);
  batch.abort(new ClosedError("the dispatcher"));
  batch.abort(new TimeoutError("k", 1));
  expect(batch.signal.aborted).toBe(true);
  expect(batch.signal.reason).toBeInstanceOf(ClosedError);
});

test("a signal that is read after the lease is aborted", () => {
  const { signal } = running(0);
  expect(signal.reason).toBeInstanceOf(TimeoutError);
});

test("the end of the lease aborts a signal that was read before it", async () => {
  const { signal } = running(20);
  expect(signal.aborted).toBe(false);
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  expect(signal.reason).toBeInstanceOf(TimeoutError);
});

test("after the handler has returned, the end of the lease aborts nothing", () => {
  const batch = running(0);
  batch.end();
  expect(batch.signal.aborted).toBe(false);
});
