/** What a holder, a waiter or an entry that is gone leaves to the next one. */
import { eventually } from "@ropeway/testkit";
import { expect, test, vi } from "vitest";
import { Lock, ReadWriteLock } from "../src/lock/index.ts";
import { lockKeys } from "../src/lock/keys.ts";
import { LockStore } from "../src/lock/store.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh } = await twoConnections("t");

/** A lock as readers and as writers see it. */
function stores(name: string): { readonly reads: LockStore; readonly writes: LockStore } {
  const of = (mode: "read" | "write") =>
    new LockStore(redis, name, { prefix: "", mode, fair: true });
  return { reads: of("read"), writes: of("write") };
}

test("an entry whose time cannot be prolonged does not renew the time of its holder", async () => {
  const name = fresh();
  const { writes: store } = stores(name);
  const holder = { token: "rw1:died:x", ttlMs: 60_000, wait: false };
  expect((await store.acquire(holder)).fence).toBeGreaterThan(0);
  const extend = vi.spyOn(LockStore.prototype, "extend");
  extend.mockRejectedValueOnce(new Error("refused"));
  const entering = new Lock(other, name).acquire({ token: holder.token, ttlMs: 3_000 });
  await expect(entering).rejects.toThrow("refused");
  extend.mockRestore();
  const { lock, entries } = store.keys;
  await eventually(async () => expect(await server.command("SCARD", entries)).toBe(1));
  await server.command("PEXPIRE", lock, "1500"); // an entry would renew it every second
  await eventually(async () => expect(await server.command("EXISTS", lock)).toBe(0));
});

test("an entry whose reply was lost is given up", async () => {
  const name = fresh();
  const { entries, readers } = lockKeys("", name);
  const [near, far] = [new ReadWriteLock(redis, name), new ReadWriteLock(other, name)];
  for (const mode of ["write", "read"] as const) {
    const outer = await near[mode].acquire({ ttlMs: 60_000 });
    const { enter } = LockStore.prototype;
    const entering = vi.spyOn(LockStore.prototype, "enter");
    entering.mockImplementationOnce(async function (this: LockStore, request) {
      await enter.call(this, request);
      throw new Error("the reply was lost");
    });
    const inner = far[mode].acquire({ token: outer.token, ttlMs: 60_000 });
    await expect(inner).rejects.toThrow("the reply was lost");
    entering.mockRestore();
    const count = mode === "write" ? ["SCARD", entries] : ["ZCARD", readers];
    const left = () => server.command(...(count as [string, string]));
    await eventually(async () => expect(await left()).toBe(1));
    expect(await outer.release()).toBe(true);
  }
});

test("entries of a holder that lost the lock are none of the next holder", async () => {
  const { writes: store } = stores(fresh());
  const holder = (token: string) => ({ token, ttlMs: 30_000, wait: false });
  await store.acquire(holder("rw1:lost:x"));
  await store.enter({ token: "rw1:lost:x", entry: "entry", ttlMs: null });
  await server.command("DEL", store.keys.lock); // by a documented program
  expect((await store.acquire(holder("rw1:next:x"))).fence).toBeGreaterThan(0);
  expect(await store.leave("rw1:next:x", "0")).toBe(true);
  expect(await server.command("EXISTS", store.keys.lock, store.keys.entries)).toBe(0);
});

test("a reader that lost the lock does not hold it again with the next reader", async () => {
  const { reads, writes } = stores(fresh());
  const holder = (token: string) => ({ token, ttlMs: 30_000, wait: false });
  const losses = {
    "to a writer": async () => {
      await server.command("DEL", reads.keys.lock); // by a documented program
      await writes.acquire(holder("rw1:writer:x"));
      expect(await writes.leave("rw1:writer:x", "0")).toBe(true);
    },
    "to an operator": async () => expect(await reads.break()).toBe(true),
  };
  for (const [how, lose] of Object.entries(losses)) {
    await reads.acquire(holder("rw1:lost:x"));
    await lose();
    expect((await reads.acquire(holder("rw1:next:x"))).fence).toBeGreaterThan(0);
    expect([how, await reads.extend("rw1:lost:x", 30_000)]).toEqual([how, false]);
    expect([how, await reads.leave("rw1:lost:x", "0")]).toEqual([how, false]);
    expect(await reads.leave("rw1:next:x", "0")).toBe(true);
  }
});

test("a lock is shared no longer than the readers that are left", async () => {
  const name = fresh();
  const { read } = new ReadWriteLock(redis, name);
  const long = await read.acquire({ ttlMs: 60_000 });
  const short = await read.acquire({ ttlMs: 5_000 });
  expect(await long.release()).toBe(true);
  const { lock, readers } = lockKeys("", name);
  for (const key of [lock, readers])
    expect(Number(await server.command("PTTL", key))).toBeLessThanOrEqual(5_000);
  expect(await short.release()).toBe(true);
});

test("a writer that gives up lets the readers behind it in", async () => {
  const { reads, writes } = stores(fresh());
  const waiting = (token: string) => ({ token, ttlMs: 30_000, wait: true });
  await reads.acquire(waiting("rw1:first:x"));
  await writes.acquire(waiting("rw1:writer:x"));
  expect((await reads.acquire(waiting("rw1:second:x"))).fence).toBeUndefined();
  expect(await writes.leave("rw1:writer:x", "0")).toBe(false);
  expect(await server.command("ZCARD", reads.keys.readers)).toBe(2);
  for (const token of ["rw1:first:x", "rw1:second:x"])
    expect(await reads.leave(token, "0")).toBe(true);
});
