import { expect, test } from "vitest";
import { Slots } from "../src/server/slots.ts";

test("a wait that is over is forgotten", async () => {
  const slots = new Slots(1);
  slots.take();
  await slots.freed(0);
  const freed = slots.freed(60_000);
  expect(slots.waiting).toBe(1);
  slots.release();
  await freed;
  expect(slots.waiting).toBe(0);
});

test("a worker that is busy for hours keeps nothing of its waits", async () => {
  const slots = new Slots(1);
  slots.take();
  // Each round of a busy worker waits for a slot and gives up; then one slot becomes free.
  for (let round = 0; round < 200; round++) {
    await Promise.all(Array.from({ length: 100 }, () => slots.freed(0)));
  }
  const freed = slots.freed(60_000);
  slots.release(); // overflowed the stack when each wait had wrapped the one before
  await freed;
  expect(slots.free).toBe(1);
});
