import { expect, test } from "vitest";
import { Loop } from "../src/loop.ts";
import { deferred, sleep } from "../src/wait.ts";

test("a tick that throws is reported and the loop goes on", async () => {
  const errors: unknown[] = [];
  const done = deferred<void>();
  let ticks = 0;
  const loop = new Loop({
    backoff: { baseMs: 1, maxMs: 1 },
    onError: (error) => errors.push(error),
    tick: async () => {
      ticks += 1;
      if (ticks === 1) throw new Error("first");
      done.resolve();
      return 60_000;
    },
  }).start();
  await done.promise;
  await loop.close();
  expect(errors).toEqual([new Error("first")]);
  expect(ticks).toBe(2);
});

test("close aborts the tick and waits for its end", async () => {
  const entered = deferred<void>();
  let ended = false;
  const loop = new Loop({
    onError: () => expect.unreachable(),
    tick: async (signal) => {
      entered.resolve();
      await sleep(60_000, signal).catch(() => {});
      ended = true;
      return 0;
    },
  }).start();
  await entered.promise;
  await loop.close();
  await loop.close();
  expect(ended).toBe(true);
});

test("wake ends a pause, also one that has not begun yet", async () => {
  let ticks = 0;
  const third = deferred<void>();
  const loop = new Loop({
    onError: () => expect.unreachable(),
    tick: async () => {
      ticks += 1;
      if (ticks === 1) loop.wake(); // before the pause that follows
      if (ticks === 2) queueMicrotask(() => setImmediate(() => loop.wake()));
      if (ticks === 3) third.resolve();
      return 60_000;
    },
  });
  loop.start();
  await third.promise;
  await loop.close();
  expect(ticks).toBe(3);
});

test("a closed loop never starts", async () => {
  const loop = new Loop({ onError: () => {}, tick: () => expect.unreachable() });
  await loop.close();
  loop.start();
  await loop.close();
});

test("a pause longer than a timer can hold is long, not short", async () => {
  let ticks = 0;
  const loop = new Loop({
    onError: () => expect.unreachable(),
    tick: async () => {
      ticks += 1;
      return 90 * 24 * 3_600_000; // as a job that is due in three months asks for
    },
  }).start();
  await sleep(50);
  await loop.close();
  expect(ticks).toBe(1);
});

test("close() does not wait longer than it may for a tick that goes on", async () => {
  let ticks = 0;
  const loop = new Loop({
    onError: () => expect.unreachable(),
    tick: () => {
      ticks += 1;
      return new Promise(() => {}); // as a call to a server that never responds
    },
    closeWithinMs: 20,
  }).start();
  await loop.close();
  await loop.close();
  expect(ticks).toBe(1);
});
