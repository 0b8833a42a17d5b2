import { connect, InvalidOptionError, LeaseLostError, silentLogger } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, test } from "vitest";
import {
  Lock,
  LockInspector,
  MultiLock,
  NotAcquiredError,
  ReadWriteLock,
} from "../src/lock/index.ts";
import { lockKeys } from "../src/lock/keys.ts";
import { LockStore } from "../src/lock/store.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh, sized } = await twoConnections("n");

function pauseProcess(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

describe("shapes", () => {
  test("an entry has a fence, also if the lock is held for longer than its fence is kept", async () => {
    const name = fresh();
    const outer = await new Lock(redis, name).acquire();
    await server.command("DEL", `lock-fence:{lock:${name}}`);
    const inner = await new Lock(other, name).acquire({ token: outer.token });
    expect(inner.fence).toBeGreaterThan(outer.fence);
    for (const held of [inner, outer]) expect(await held.release()).toBe(true);
  });

  test("the marker of readers, which operators see as a token, enters nothing", async () => {
    const name = fresh();
    const reader = await new ReadWriteLock(redis, name).read.acquire();
    const token = await server.command("GET", `lock:${name}`);
    const entering = new Lock(other, name).acquire({ token: String(token) });
    await expect(entering).rejects.toThrow(LeaseLostError);
    expect(await reader.release()).toBe(true);
    const writer = await new Lock(other, name).tryAcquire();
    expect(await writer?.release()).toBe(true);
  });

  test("re-entrant by token: free when every entry was released", async () => {
    const name = fresh();
    const outer = await new Lock(redis, name).acquire();
    const inner = await new Lock(other, name).acquire({ token: outer.token });
    expect(inner.fence).toBe(outer.fence);
    expect(await outer.release()).toBe(true);
    expect(await new Lock(redis, name).tryAcquire()).toBeUndefined();
    expect(await inner.release()).toBe(true);
    expect(
      await server.command(
        "EXISTS",
        ...lockKeys("", name).all.filter((key) => !key.includes("fence")),
      ),
    ).toBe(0);
    await expect(new Lock(other, name).acquire({ token: outer.token })).rejects.toThrow(
      LeaseLostError,
    );
  });

  test("a reader enters again past a writer that waits, and shares until every entry was released", async () => {
    const near = new ReadWriteLock(redis, fresh());
    const there = new ReadWriteLock(other, near.name);
    const outer = await near.read.acquire();
    const writing = there.write.acquire();
    await sized(lockKeys("", near.name).queue, 1);
    expect(await near.read.tryAcquire()).toBeUndefined(); // behind the writer
    const inner = await near.read.acquire({ token: outer.token });
    const innermost = await there.read.acquire({ token: inner.token });
    expect(await outer.release()).toBe(true);
    await inner.extend();
    expect(await inner.release()).toBe(true);
    expect(await there.write.tryAcquire()).toBeUndefined();
    expect(await innermost.release()).toBe(true);
    const writer = await writing;
    expect(writer.fence).toBeGreaterThan(innermost.fence);
    await expect(near.read.acquire({ token: inner.token })).rejects.toThrow(LeaseLostError);
    const reading = await near.read.acquire({ token: writer.token }); // an entry of the writer
    expect(await writer.release()).toBe(true);
    expect(await there.read.tryAcquire()).toBeUndefined();
    expect(await reading.release()).toBe(true);
  });

  test("a reader that tries to enter as a writer keeps what it has", async () => {
    const lock = new ReadWriteLock(redis, fresh());
    const reader = await lock.read.acquire();
    await expect(lock.write.acquire({ token: reader.token })).rejects.toThrow(LeaseLostError);
    await new Lock(redis, fresh()).run(() => {}); // behind whatever the failed entry has sent
    expect(await new ReadWriteLock(other, lock.name).write.tryAcquire()).toBeUndefined();
    expect(await reader.release()).toBe(true);
  });

  test("an entry after the first one was released does not bring that one back", async () => {
    const name = fresh();
    const lock = new Lock(redis, name, { ttlMs: null });
    const outer = await lock.acquire();
    const inner = await lock.acquire({ token: outer.token });
    await outer.release();
    const last = await lock.acquire({ token: outer.token });
    expect(await inner.release()).toBe(true);
    expect(await server.command("EXISTS", lockKeys("", name).lock)).toBe(1);
    expect(await last.release()).toBe(true);
    expect(await server.command("EXISTS", lockKeys("", name).lock)).toBe(0);
  });

  test("an extension counts for every entry", async () => {
    const name = fresh();
    const how = { ttlMs: 5_000, renew: false };
    const outer = await new Lock(redis, name).acquire(how);
    const inner = await new Lock(other, name).acquire({ ...how, token: outer.token });
    await outer.extend(60_000);
    const { lock, entries } = lockKeys("", name);
    for (const key of [lock, entries])
      expect(Number(await server.command("PTTL", key))).toBeGreaterThan(30_000);
    await outer.extend(null);
    for (const key of [lock, entries]) expect(await server.command("PTTL", key)).toBe(-1);
    expect(await outer.release()).toBe(true);
    expect(await inner.release()).toBe(true);
  });

  test("an entry with a shorter time does not shorten that of the holder", async () => {
    const name = fresh();
    const { lock, entries } = lockKeys("", name);
    const left = async (key: string) => Number(await server.command("PTTL", key));
    const short = { ttlMs: 5_000, renew: false };
    const outer = await new Lock(redis, name).acquire({ ttlMs: 60_000, renew: false });
    const inner = await new Lock(other, name).acquire({ ...short, token: outer.token });
    await inner.extend(4_000);
    for (const key of [lock, entries]) expect(await left(key)).toBeGreaterThan(30_000);
    expect(await inner.release()).toBe(true); // the holder still has the lock
    expect(await left(lock)).toBeGreaterThan(30_000);
    expect(await new Lock(other, name).tryAcquire()).toBeUndefined();
    expect(await outer.release()).toBe(true);

    const endless = await new Lock(redis, name).acquire({ ttlMs: null });
    const bounded = await new Lock(other, name).acquire({ ...short, token: endless.token });
    expect(await left(lock)).toBe(-1);
    expect(await bounded.release()).toBe(true);
    expect(await endless.release()).toBe(true);
    expect(await server.command("EXISTS", lock, entries)).toBe(0);
  });

  test("an entry that fails, or was never made, does not keep and not release the lock", async () => {
    const name = fresh();
    const { lock, entries } = lockKeys("", name);
    const outer = await new Lock(redis, name).acquire();
    const entering = new Lock(other, name).acquire({ token: outer.token, ttlMs: 10 });
    pauseProcess(50); // longer than the entry lives
    await expect(entering).rejects.toThrow(LeaseLostError);
    await eventually(async () => expect(await server.command("SCARD", entries)).toBe(1));
    const store = new LockStore(redis, name, { prefix: "", mode: "write", fair: true });
    expect(await store.leave(outer.token, "unknown")).toBe(true);
    expect(await server.command("GET", lock)).toBe(outer.token);
    expect(await outer.release()).toBe(true);
    expect(await server.command("EXISTS", lock, entries)).toBe(0);
    const plain = await new Lock(redis, name).acquire();
    expect(await store.leave(plain.token, "unknown")).toBe(true);
    expect(await plain.release()).toBe(true);
  });

  test("an entry with a longer time prolongs that of the holder", async () => {
    const name = fresh();
    const outer = await new Lock(redis, name).acquire({ ttlMs: 5_000, renew: false });
    const long = { ttlMs: 60_000, renew: false };
    const inner = await new Lock(other, name).acquire({ ...long, token: outer.token });
    const { lock, entries } = lockKeys("", name);
    for (const key of [lock, entries])
      expect(Number(await server.command("PTTL", key))).toBeGreaterThan(30_000);
    expect(await inner.release()).toBe(true);
    expect(await outer.release()).toBe(true);
  });

  test("a lock is shared as long as the reader that stays longest", async () => {
    const name = fresh();
    const { read } = new ReadWriteLock(redis, name);
    const long = await read.acquire({ ttlMs: 60_000 });
    const short = await read.acquire({ ttlMs: 5_000 });
    const { lock, readers } = lockKeys("", name);
    for (const key of [lock, readers])
      expect(Number(await server.command("PTTL", key))).toBeGreaterThan(30_000);
    expect(await short.release()).toBe(true);
    expect(await long.release()).toBe(true);
  });

  test("readers share, a writer is alone, and neither starves", async () => {
    const name = fresh();
    const lock = new ReadWriteLock(redis, name);
    const far = new ReadWriteLock(other, name);
    const [a, b] = [await lock.read.acquire(), await far.read.acquire()];
    expect(await far.write.tryAcquire()).toBeUndefined();
    expect(await new Lock(other, name).tryAcquire()).toBeUndefined();
    expect(await server.command("SETNX", `lock:${name}`, "document")).toBe(0);
    const writing = far.write.acquire();
    await sized(lockKeys("", name).queue, 1);
    expect(await lock.read.tryAcquire()).toBeUndefined(); // behind the writer
    const late = [lock.read.acquire(), far.read.acquire()];
    await a.release();
    await b.release();
    const writer = await writing;
    expect(writer.fence).toBeGreaterThan(b.fence);
    expect(await lock.read.tryAcquire()).toBeUndefined();
    await writer.release();
    for (const reader of await Promise.all(late)) expect(await reader.release()).toBe(true);
    expect(
      await server.command(
        "EXISTS",
        ...lockKeys("", name).all.filter((key) => !key.includes("fence")),
      ),
    ).toBe(0);
    expect(() => new ReadWriteLock(redis, name, { ttlMs: null })).toThrow(InvalidOptionError);
  });

  test("a writer hands the lock to all readers that wait in front, at once", async () => {
    const name = fresh();
    const far = new ReadWriteLock(other, name);
    const writer = await new ReadWriteLock(redis, name).write.acquire();
    const reading = Array.from({ length: 3 }, () => far.read.acquire());
    const { queue, readers } = lockKeys("", name);
    await sized(queue, 3);
    expect(await writer.release()).toBe(true);
    expect(await server.command("ZCARD", readers)).toBe(3);
    for (const reader of await Promise.all(reading)) expect(await reader.release()).toBe(true);
  });

  test("what a process that dies at any moment leaves behind expires", async () => {
    const name = fresh();
    const store = new LockStore(redis, name, { prefix: "", mode: "write", fair: true });
    const holder = { token: "rw1:dies:x", ttlMs: 30_000, wait: false };
    expect((await store.acquire(holder)).fence).toBeGreaterThan(0);
    await store.enter({ token: holder.token, entry: "entry", ttlMs: null });
    await store.acquire({ token: "rw1:waits:x", ttlMs: 30_000, wait: true });
    const { lock, fence, queue, waiters, entries } = store.keys;
    for (const key of [lock, fence, queue, waiters, entries])
      expect(Number(await server.command("PTTL", key))).toBeGreaterThan(0);
    await store.leave("rw1:waits:x", "0");
    for (const entry of ["entry", "0"]) expect(await store.leave(holder.token, entry)).toBe(true);
  });

  test("a reader that dies does not hold the others", async () => {
    const name = fresh();
    const lock = new ReadWriteLock(redis, name);
    await lock.read.acquire({ ttlMs: 200, renew: false });
    const kept = await lock.read.acquire({ ttlMs: 5_000 });
    const writing = lock.write.acquire({ waitMs: 5_000 });
    await kept.release();
    expect(await (await writing).release()).toBe(true);
  });

  test("the last live reader hands the lock over, whatever readers died before it", async () => {
    const name = fresh();
    const lock = new ReadWriteLock(redis, name);
    const { lock: key, queue, readers } = lockKeys("", name);
    const dead = await lock.read.acquire({ ttlMs: 60_000, renew: false });
    const kept = await lock.read.acquire({ ttlMs: 60_000 });
    const writing = new ReadWriteLock(other, name).write.acquire({ waitMs: 20_000 });
    await sized(queue, 1);
    await server.command("ZADD", readers, "1", dead.token); // its time is over
    expect(await kept.release()).toBe(true);
    expect(await server.command("GET", key)).not.toBeNull();
    const writer = await writing;
    expect(await server.command("GET", key)).toBe(writer.token);
    expect(await writer.release()).toBe(true);
    expect(await dead.release()).toBe(false);
  });

  test("several locks in any order cannot block each other", async () => {
    const [a, b, c] = [fresh(), fresh(), fresh()];
    const orders = [
      [a, b, c],
      [c, b, a],
      [b, a, c],
      [c, a, b],
    ];
    let inside = 0;
    await Promise.all(
      Array.from({ length: 24 }, (_, i) =>
        new MultiLock(i % 2 ? redis : other, orders[i % 4] as string[]).run(async (held) => {
          inside += 1;
          expect(inside).toBe(1);
          expect(held.fences.size).toBe(3);
          await Promise.resolve();
          inside -= 1;
        }),
      ),
    );
    const [first, last] = [a, c].sort() as [string, string]; // the order in which they are acquired
    const one = await new Lock(redis, last).acquire();
    const failing = new MultiLock(redis, [a, c]).acquire({ waitMs: 30 });
    await expect(failing).rejects.toThrow(NotAcquiredError);
    await expect(failing).rejects.toMatchObject({
      details: { what: `lock "${last}" of ${JSON.stringify([first, last])}`, waitMs: 30 },
    });
    await (await new Lock(redis, first).acquire({ waitMs: 0 })).release();
    await one.release();
  });

  test("a name that is given twice is one of several locks", async () => {
    const [a, b] = [fresh(), fresh()].sort() as [string, string];
    const held = await new MultiLock(redis, [b, a, b]).acquire({ waitMs: 0 });
    expect(held.locks.map(({ name }) => name)).toEqual([a, b]);
    expect(await held.release()).toBe(true);
  });

  test("an abort listener of several locks that throws is logged, and does not end the process", async () => {
    const errors: unknown[] = [];
    const logger = { ...silentLogger, error: (...said: unknown[]) => void errors.push(said) };
    await using noting = await connect(server.url, { logger });
    const names = [fresh(), fresh()].sort();
    const held = await new MultiLock(noting, names, { ttlMs: 100, renew: false }).acquire();
    held.signal.addEventListener("abort", () => {
      throw new Error("thrown by a listener");
    });
    const said = [{ err: "thrown by a listener", locks: names }, "an abort listener failed"];
    await eventually(() => expect(errors).toEqual([said]));
    expect(held.signal.aborted).toBe(true);
  });

  test("several locks are not acquired if one of them is lost while the others are waited for", async () => {
    const [a, b] = [fresh(), fresh()].sort() as [string, string];
    const blocked = await new Lock(redis, b).acquire();
    const several = new MultiLock(other, [a, b], { ttlMs: 200, renew: false });
    const waiting = several.acquire();
    const taken = await eventually(async () => {
      const lock = await new Lock(redis, a).tryAcquire(); // it was lost by then
      if (lock === undefined || lock.fence === undefined) throw new Error("not yet");
      if ((await server.command("ZCARD", lockKeys("", b).queue)) !== 1) {
        await lock.release();
        throw new Error("too early");
      }
      return lock;
    });
    await blocked.release();
    await sized(lockKeys("", a).queue, 1); // it waits for the first one again
    await taken.release();
    const held = await waiting;
    expect(held.locks.map((lock) => lock.held)).toEqual([true, true]);
    expect(await held.release()).toBe(true);

    const again = await new Lock(redis, b).acquire();
    const failing = several.acquire({ waitMs: 600, ttlMs: 100 });
    await expect(failing).rejects.toThrow(NotAcquiredError);
    await again.release();
  });

  test("the inspector lists who holds what", async () => {
    const held = await new Lock(redis, "market:{x}", { owner: "shop:1" }).acquire();
    await server.command("SET", "lock:doc", "uuid", "NX", "EX", "10");
    const { items, cursor } = await new LockInspector(redis).list();
    expect(cursor).toBeUndefined();
    expect(items.find((lock) => lock.name === "market:{x}")).toMatchObject({
      mode: "write",
      owner: "shop:1",
      fence: held.fence,
    });
    expect(items.find((lock) => lock.name === "doc")).toMatchObject({
      mode: "foreign",
      owner: "", // its token is a secret: whoever knows it can release the lock
      token: "uuid",
    });
    await held.release();
    await server.command("DEL", "lock:doc");
  });

  test("nothing is left but fences, which expire", async () => {
    const keys = ((await server.command("KEYS", "*")) as string[]).filter(
      (key) => !key.startsWith("lock-fence"),
    );
    expect(keys.filter((key) => !key.startsWith("kit-wake"))).toEqual([]);
  });
});
