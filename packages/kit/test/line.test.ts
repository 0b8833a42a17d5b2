import { AbortedError } from "@ropeway/core";
import { expect, test } from "vitest";
import { Line, WAITER_LEASE_MS } from "../src/line.ts";
import { wakeListOf } from "../src/store/wake-list.ts";
import { twoConnections } from "./two-connections.ts";

const { redis } = await twoConnections("line");
const wakes = wakeListOf(redis, "");

test("what is handed over is held from the last renewal of the place on", async () => {
  const since = performance.now();
  const line = new Line("a lock", wakes, async (tokens) => ({
    granted: new Map(tokens.map((token) => [token, 7])),
  }));
  const place = { touchedAt: since - WAITER_LEASE_MS, retryMs: 1 };
  const { fence, safeUntil } = await line.wait("token", place, { waitMs: null });
  expect(fence).toBe(7);
  expect(safeUntil).toBeGreaterThan(since + WAITER_LEASE_MS / 2);
});

test("a wake-up that hands nothing over makes the waiter ask at once", async () => {
  let asked = 0;
  const line = new Line("a lock", wakes, async () => {
    asked += 1;
    return { granted: new Map() };
  });
  const controller = new AbortController();
  const patience = { waitMs: null, signal: controller.signal };
  const waiting = line.wait("token", { touchedAt: performance.now() }, patience);
  wakes.deliver([{ list: wakes.key, message: "token" }]);
  expect(asked).toBe(1);
  controller.abort();
  await expect(waiting).rejects.toThrow(AbortedError);
});
