import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { TimerWheel, WheelEntry } from "../src/timer-wheel.ts";

class Bell extends WheelEntry {
  readonly #ring: () => void;

  constructor(ring: () => void) {
    super();
    this.#ring = ring;
  }

  override due(): void {
    this.#ring();
  }
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
});

afterEach(() => {
  vi.useRealTimers();
});

test("entries are due in their time, near and far, never early", () => {
  const wheel = new TimerWheel();
  const rung: [number, number][] = [];
  const delays = [0, 1, 15, 16, 17, 500, 4_095, 4_096, 4_097, 10_000, 60_000];
  for (const ms of delays) wheel.set(new Bell(() => rung.push([ms, performance.now()])), ms);
  const began = performance.now();
  vi.advanceTimersByTime(61_000);
  expect(rung.map(([ms]) => ms).sort((a, b) => a - b)).toEqual(delays);
  for (const [ms, at] of rung) {
    expect(at - began).toBeGreaterThanOrEqual(ms);
    expect(at - began).toBeLessThanOrEqual(ms + 48);
  }
});

test("a cleared entry is never due, and the clock stops when nothing is set", () => {
  const wheel = new TimerWheel();
  const bell = new Bell(() => expect.unreachable());
  wheel.set(bell, 100);
  expect(wheel.size).toBe(1);
  wheel.clear(bell);
  wheel.clear(bell);
  expect(wheel.size).toBe(0);
  vi.advanceTimersByTime(1_000);
  expect(vi.getTimerCount()).toBe(0);
});

test("an entry can set itself again and clear others while it is due", () => {
  const wheel = new TimerWheel();
  let rung = 0;
  const victim = new Bell(() => expect.unreachable());
  const bell = new Bell(() => {
    rung += 1;
    wheel.clear(victim);
    if (rung < 3) wheel.set(bell, 50);
  });
  wheel.set(bell, 50);
  wheel.set(victim, 50);
  vi.advanceTimersByTime(1_000);
  expect(rung).toBe(3);
});

test("setting an entry again moves it", () => {
  const wheel = new TimerWheel();
  let rung = 0;
  const bell = new Bell(() => {
    rung += 1;
  });
  wheel.set(bell, 50);
  wheel.set(bell, 5_000);
  vi.advanceTimersByTime(1_000);
  expect(rung).toBe(0);
  vi.advanceTimersByTime(5_000);
  expect(rung).toBe(1);
});

test("deadlines that are all met wake the process rarely", () => {
  const wheel = new TimerWheel();
  const timers = vi.spyOn(globalThis, "setTimeout");
  for (let ms = 0; ms < 60_000; ms += 10) {
    const bell = new Bell(() => expect.unreachable());
    wheel.set(bell, 5_000);
    vi.advanceTimersByTime(10);
    wheel.clear(bell);
  }
  expect(timers.mock.calls.length).toBeLessThan(200);
});

test("whatever is set and cleared, each entry is due once, in its time", () => {
  const step = fc.record({ ms: fc.nat(9_000), clears: fc.boolean(), pauseMs: fc.nat(400) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const wheel = new TimerWheel();
      const late = new Map<number, number>();
      const cleared = new Set<number>();
      for (const [i, { ms, clears, pauseMs }] of steps.entries()) {
        const dueAt = performance.now() + ms;
        const bell = new Bell(() => {
          expect(late.has(i)).toBe(false);
          late.set(i, performance.now() - dueAt);
        });
        wheel.set(bell, ms);
        vi.advanceTimersByTime(pauseMs);
        if (clears && !late.has(i)) cleared.add(i);
        wheel.clear(bell);
        if (!clears && !late.has(i)) wheel.set(bell, Math.max(0, dueAt - performance.now()));
      }
      vi.advanceTimersByTime(10_000);
      expect(late.size).toBe(steps.length - cleared.size);
      for (const ms of late.values()) {
        expect(ms).toBeGreaterThanOrEqual(0);
        expect(ms).toBeLessThanOrEqual(32);
      }
      expect(wheel.size).toBe(0);
    }),
    { seed: 7 },
  );
});
