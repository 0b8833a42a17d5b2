import { setTimeout as later } from "node:timers/promises";
import { eventually } from "@ropeway/testkit";
import { expect, it } from "vitest";
import { guardSignal } from "../src/guarded-signal.ts";

function guarded() {
  const abort = new AbortController();
  const reported: unknown[] = [];
  const signal = guardSignal(abort.signal, (error) => reported.push(error));
  return { abort, signal, reported };
}

it("reports what listeners throw or reject with, and calls the others", async () => {
  const { abort, signal, reported } = guarded();
  const called: string[] = [];
  signal.addEventListener("abort", () => {
    throw "a function";
  });
  signal.addEventListener("abort", async () => Promise.reject("a promise"));
  signal.addEventListener("abort", {
    handleEvent() {
      throw "an object";
    },
  });
  signal.onabort = () => {
    throw "onabort";
  };
  signal.addEventListener("abort", function (this: unknown, { type }) {
    called.push(type, String(this === signal));
  });
  abort.abort();
  expect(called).toEqual(["abort", "true"]);
  await eventually(() => expect(reported).toHaveLength(4));
  expect(new Set(reported)).toEqual(new Set(["a function", "a promise", "an object", "onabort"]));
});

it("adds a listener once, removes it, and keeps its options", () => {
  const { abort, signal } = guarded();
  let calls = 0;
  const twice = () => void calls++;
  const removed = () => expect.unreachable("it was removed");
  signal.addEventListener("abort", twice, { once: true });
  signal.addEventListener("abort", twice);
  signal.addEventListener("abort", removed);
  signal.removeEventListener("abort", removed);
  signal.removeEventListener("abort", () => {});
  abort.abort();
  signal.dispatchEvent(new Event("abort"));
  expect(calls).toBe(1);
});

it("is an AbortSignal for Node", async () => {
  const { abort, signal } = guarded();
  const waiting = expect(later(60_000, undefined, { signal })).rejects.toMatchObject({
    code: "ABORT_ERR",
  });
  const both = AbortSignal.any([signal]);
  abort.abort();
  await waiting;
  expect([signal instanceof AbortSignal, both.aborted]).toEqual([true, true]);
});
