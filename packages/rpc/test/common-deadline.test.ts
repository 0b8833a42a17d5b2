import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { CommonDeadline } from "../src/client/common-deadline.ts";
import type { Receiver } from "../src/client/pending-call.ts";
import { PendingTable } from "../src/client/pending-table.ts";
import { TimerWheel } from "../src/timer-wheel.ts";

const TIMEOUT_MS = 1_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
});

afterEach(() => {
  vi.useRealTimers();
});

function stage() {
  const wheel = new TimerWheel();
  const pending = new PendingTable(() => {});
  const deadline = new CommonDeadline(wheel, pending, TIMEOUT_MS);
  const ended: [name: string, at: number][] = [];
  const began = performance.now();
  const send = (name: string, sharesDeadline = true) => {
    const sentAt = performance.now();
    const due = () => {
      pending.delete(receiver);
      ended.push([name, performance.now() - began]);
    };
    const id = pending.ids.next(true);
    const receiver = { id, number: 0, sentAt, sharesDeadline, due } as unknown as Receiver;
    pending.add(receiver);
    if (sharesDeadline) deadline.watch(sentAt);
    return receiver;
  };
  return { wheel, pending, ended, send };
}

test("each call ends at its own deadline, never early, and in the order of sending", () => {
  const { ended, send, wheel } = stage();
  for (const name of ["a", "b", "c"]) {
    send(name);
    vi.advanceTimersByTime(300);
  }
  vi.advanceTimersByTime(5_000);
  expect(ended.map(([name]) => name)).toEqual(["a", "b", "c"]);
  ended.forEach(([, at], i) => {
    expect(at).toBeGreaterThanOrEqual(i * 300 + TIMEOUT_MS);
    expect(at).toBeLessThanOrEqual(i * 300 + TIMEOUT_MS + 48);
  });
  expect(wheel.size).toBe(0);
});

test("answered calls are not ended, and a call after them has its whole time", () => {
  const { ended, send, pending } = stage();
  pending.delete(send("answered"));
  vi.advanceTimersByTime(900);
  send("late");
  vi.advanceTimersByTime(900);
  expect(ended).toEqual([]);
  vi.advanceTimersByTime(200);
  expect(ended.map(([name]) => name)).toEqual(["late"]);
});

test("a call with a deadline of its own is left alone, and holds up no other", () => {
  const { ended, send } = stage();
  send("own", false);
  send("shared");
  vi.advanceTimersByTime(2_000);
  expect(ended.map(([name]) => name)).toEqual(["shared"]);
  send("again");
  vi.advanceTimersByTime(2_000);
  expect(ended.map(([name]) => name)).toEqual(["shared", "again"]);
});
