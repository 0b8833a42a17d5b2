import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { whenAborted } from "../src/when-aborted.ts";

const listenersOf = (signal: AbortSignal) => getEventListeners(signal, "abort").length;

test("many waits on a signal have one listener, which goes with the last of them", () => {
  const { signal } = new AbortController();
  const ends = Array.from({ length: 20 }, () => whenAborted(signal, () => {}));
  expect(listenersOf(signal)).toBe(1);
  for (const end of ends) {
    expect(listenersOf(signal)).toBe(1);
    end();
    end();
  }
  expect(listenersOf(signal)).toBe(0);
});

test("a wait that begins after the last one ended is called, and its end is its own", () => {
  const controller = new AbortController();
  const calls: string[] = [];
  const first = whenAborted(controller.signal, () => calls.push("first"));
  first();
  whenAborted(controller.signal, () => calls.push("second"));
  first();
  expect(listenersOf(controller.signal)).toBe(1);
  controller.abort();
  expect(calls).toEqual(["second"]);
});

test("a wait that another one unsubscribes is not called", () => {
  const controller = new AbortController();
  const calls: string[] = [];
  let end: () => void = () => {};
  whenAborted(controller.signal, () => {
    calls.push("first");
    end();
  });
  end = whenAborted(controller.signal, () => calls.push("second"));
  controller.abort();
  expect(calls).toEqual(["first"]);
});
