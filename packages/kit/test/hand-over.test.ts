/** What the next holder of a lock gets from the release. */
import { expect, test } from "vitest";
import { WAITER_LEASE_MS } from "../src/line.ts";
import { type HeldLock, Lock } from "../src/lock/index.ts";
import { lockKeys } from "../src/lock/keys.ts";
import { LockStore } from "../src/lock/store.ts";
import { Semaphore } from "../src/semaphore/index.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh, sized } = await twoConnections("h");

const scripts = async () => {
  const stats = String(await server.command("INFO", "commandstats"));
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
};

test("a lock that was handed over is kept for its ttlMs, also if its holder renews nothing", async () => {
  const name = fresh();
  const first = await new Lock(redis, name).acquire();
  const waiting = new Lock(other, name, { ttlMs: 60_000 }).acquire();
  await sized(lockKeys("", name).queue, 1);
  await first.release();
  const held = await waiting;
  expect(Number(await server.command("PTTL", lockKeys("", name).lock))).toBeGreaterThan(20_000);
  await held.release();
});

test("a release in the process of the next waiter gives it its whole ttlMs, without a further command", async () => {
  const name = fresh();
  const { lock, queue, waiters } = lockKeys("", name);
  const first = await new Lock(redis, name).acquire();
  const waiting = [60_000, 20_000, null].map(async (ttlMs, i) => {
    await sized(queue, i);
    return new Lock(redis, name).acquire({ ttlMs });
  });
  await sized(queue, 3);
  const place = (await server.command("HVALS", waiters)) as string[];
  expect(place.map((value) => value.split(" ")[1]).sort()).toEqual(["w", "w20000", "w60000"]);
  await server.command("CONFIG", "RESETSTAT");
  const since = performance.now();
  await first.release();
  const second = (await waiting[0]) as HeldLock;
  expect(Number(await server.command("PTTL", lock))).toBeGreaterThan(40_000);
  expect(second.held).toBe(true);
  await second.release();
  const third = (await waiting[1]) as HeldLock;
  const left = Number(await server.command("PTTL", lock));
  expect(left > 5_000 && left <= 20_000).toBe(true);
  expect(third.fence).toBeGreaterThan(second.fence);
  const renewals = Math.ceil((performance.now() - since) / 1_500); // of places, on a busy machine
  expect(await scripts()).toBeLessThanOrEqual(2 + renewals);
  await third.release();
  await (await waiting[2])?.release();
});

test("a waiter of another process gets no more than the time of its place, since that process may have died", async () => {
  const name = fresh();
  const [near, far] = [redis, other].map(
    (one) => new LockStore(one, name, { prefix: "", mode: "write", fair: true }),
  ) as [LockStore, LockStore];
  await near.acquire({ token: "rw1:near:x", ttlMs: 60_000, wait: false });
  await far.acquire({ token: "rw1:far:x", ttlMs: 60_000, wait: true });
  expect(await near.leave("rw1:near:x", "0")).toBe(true);
  expect(await server.command("GET", near.keys.lock)).toBe("rw1:far:x");
  expect(Number(await server.command("PTTL", near.keys.lock))).toBeLessThanOrEqual(WAITER_LEASE_MS);
  expect(await far.leave("rw1:far:x", "0")).toBe(true);
});

test("an acquire that is sent again keeps its place in the queue", async () => {
  const store = new LockStore(redis, fresh(), { prefix: "", mode: "write", fair: true });
  const tokens = ["holder", "first", "second"].map((who) => `rw1:${who}:x`);
  for (const token of [...tokens, "rw1:first:x"])
    await store.acquire({ token, ttlMs: 30_000, wait: true });
  expect(await server.command("ZRANGE", store.keys.queue, "0", "-1")).toEqual(tokens.slice(1));
  for (const token of tokens) expect(await store.leave(token, "0")).toBe(true);
});

test("renewing a place keeps the time that its waiter asked for", async () => {
  const name = fresh();
  const { queue, waiters } = lockKeys("", name);
  const store = new LockStore(redis, name, { prefix: "", mode: "write", fair: true });
  const held = await new Lock(redis, name).acquire();
  await store.acquire({ token: "rw1:a:x", ttlMs: 7_000, wait: true });
  await sized(queue, 1);
  await store.ask(["rw1:a:x", "rw1:b:x"]);
  const places = await server.command("HMGET", waiters, "rw1:a:x", "rw1:b:x");
  expect((places as string[]).map((value) => value.split(" ")[1])).toEqual(["w7000", "w"]);
  await held.release();
  expect(await store.leave("rw1:a:x", "0")).toBe(true);
  expect(await store.leave("rw1:b:x", "0")).toBe(true);
});

test("a waiter that gets the lock in the moment it begins to wait is woken, and does not ask again", async () => {
  const lock = new Lock(redis, fresh());
  let held = await lock.acquire();
  await server.command("CONFIG", "RESETSTAT");
  for (let n = 0; n < 5; n++) {
    const waiting = lock.acquire(); // both commands are sent at once, so both replies come together
    await held.release();
    held = await waiting;
  }
  expect(await scripts()).toBe(10);
  await held.release();

  const semaphore = new Semaphore(redis, fresh());
  let permit = await semaphore.acquire();
  await server.command("CONFIG", "RESETSTAT");
  for (let n = 0; n < 5; n++) {
    const waiting = semaphore.acquire();
    await permit.release();
    permit = await waiting;
  }
  expect(await scripts()).toBe(15); // a permit that was handed over is renewed once
  await permit.release();
});
