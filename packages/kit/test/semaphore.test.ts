import {
  AbortedError,
  connect,
  InvalidArgumentError,
  InvalidOptionError,
  LeaseLostError,
} from "@ropeway/core";
import { eventually, startProxy } from "@ropeway/testkit";
import { describe, expect, test, vi } from "vitest";
import { Lock } from "../src/lock/index.ts";
import { NotAcquiredError, Semaphore, SemaphoreInspector } from "../src/semaphore/index.ts";
import { semaphoreKeys } from "../src/semaphore/keys.ts";
import { SemaphoreStore } from "../src/semaphore/store.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh, sized } = await twoConnections("sem");

describe("permits", () => {
  test("at most the limit, on the documented keys, and nothing left", async () => {
    const name = fresh();
    const semaphore = new Semaphore(redis, name, { limit: 3 });
    const permits = [
      await semaphore.acquire(),
      await semaphore.acquire(),
      await semaphore.acquire(),
    ];
    expect(await new Semaphore(other, name, { limit: 3 }).tryAcquire()).toBeUndefined();
    expect(await server.command("ZCARD", name)).toBe(3);
    expect(await server.command("ZRANGE", `${name}:owner`, "0", "-1")).toEqual(
      permits.map((p) => p.token),
    );
    expect(await semaphore.inspect()).toEqual({ name, limit: 3, held: 3, waiting: 0 });
    expect((await new SemaphoreInspector(redis).list({ search: name })).items).toEqual([
      { name, limit: undefined, held: 3, waiting: 0 },
    ]);
    expect(await server.command("PTTL", `${name}:counter`)).toBe(-1);
    for (const permit of permits) {
      expect(await server.command("GET", `${name}:counter`)).toBe("3");
      expect(await permit.release()).toBe(true);
    }
    expect(await server.command("EXISTS", ...semaphoreKeys("", name).all)).toBe(0);
  });

  test("waiters are served in order by hand-over", async () => {
    const name = fresh();
    const held = [
      await new Semaphore(redis, name, { limit: 2 }).acquire(),
      await new Semaphore(redis, name, { limit: 2 }).acquire(),
    ];
    const order: number[] = [];
    const handles = [
      new Semaphore(redis, name, { limit: 2 }),
      new Semaphore(other, name, { limit: 2 }),
    ];
    const all: Promise<unknown>[] = [];
    for (let i = 0; i < 20; i++) {
      all.push((handles[i % 2] as Semaphore).run(() => order.push(i)));
      await sized(`${name}:queue`, i + 1);
    }
    await held[0]?.release();
    await Promise.all(all);
    expect(order).toEqual([...order].sort((a, b) => a - b));
    await held[1]?.release();
  });

  test("a permit that was handed over is kept for its ttlMs, also if its holder renews nothing", async () => {
    const name = fresh();
    const first = await new Semaphore(redis, name, { ttlMs: 18_000 }).acquire();
    const waiting = new Semaphore(other, name, { ttlMs: 18_000 }).acquire();
    await sized(`${name}:queue`, 1);
    await first.release();
    const permit = await waiting;
    const ends = await server.command("ZSCORE", semaphoreKeys("", name).leases, permit.token);
    expect(Number(ends) - Date.now()).toBeGreaterThan(8_000);
    await permit.release();
  });

  test.each(["0", "-1", "x", "", "1e3", "1000001", "99999999999999999999"])(
    "a limit of another program that is none does not count: %j",
    async (value) => {
      const name = fresh();
      const semaphore = new Semaphore(redis, name, { limit: 1 });
      await server.command("SET", `${name}:limit`, value);
      const permit = await semaphore.acquire();
      expect(await semaphore.tryAcquire()).toBeUndefined();
      expect(await semaphore.inspect()).toEqual({ name, limit: 1, held: 1, waiting: 0 });
      await permit.release();
    },
  );

  test("resize admits more, and a smaller limit lets holders finish", async () => {
    const name = fresh();
    const semaphore = new Semaphore(redis, name, { limit: 1 });
    const first = await semaphore.acquire();
    const waiting = new Semaphore(other, name, { limit: 1 }).acquire();
    await eventually(async () => expect(await server.command("ZCARD", `${name}:queue`)).toBe(1));
    await semaphore.resize(2);
    expect(await server.command("ZCARD", name)).toBe(2); // at once, not when the waiter asks
    const second = await waiting;
    await semaphore.resize(1);
    expect(await semaphore.tryAcquire()).toBeUndefined();
    await first.release();
    expect(await semaphore.tryAcquire()).toBeUndefined();
    await second.release();
    await (await semaphore.acquire({ waitMs: 0 })).release();
    await semaphore.resize(undefined);
    expect(await server.command("EXISTS", `${name}:limit`)).toBe(0);
    for (const bad of [0, -1, Number.NaN, 1.5, 1e9]) {
      await expect(semaphore.resize(bad)).rejects.toThrow(InvalidArgumentError);
    }
  });

  test("a lost permit aborts the signal, and refresh after loss fails and changes nothing", async () => {
    const name = fresh();
    const semaphore = new Semaphore(redis, name, { ttlMs: 200 });
    const permit = await semaphore.acquire();
    await eventually(async () =>
      expect(
        Number(await server.command("ZSCORE", `${name}:leases`, permit.token)),
      ).toBeGreaterThan(0),
    );
    await server.command("ZREM", name, permit.token); // as a documented program with a shorter timeout does
    await expect(permit.refresh()).rejects.toThrow(LeaseLostError);
    expect(permit.signal.aborted).toBe(true);
    expect(await permit.release()).toBe(false);
    expect(await server.command("EXISTS", name, `${name}:owner`, `${name}:leases`)).toBe(0);
  });

  test("a holder whose connection is gone is told before its permit goes to another", async () => {
    await using proxy = await startProxy(server);
    await using cut = await connect(proxy.url);
    const name = fresh();
    const lost = await new Semaphore(cut, name, { ttlMs: 500 }).acquire();
    proxy.refuse();
    proxy.cut();
    const next = new Semaphore(redis, name, { ttlMs: 500 }).acquire().then((permit) => {
      expect(lost.signal.aborted).toBe(true);
      return permit;
    });
    await (await next).release();
    proxy.heal();
    expect(await lost.release()).toBe(false);
  });

  test("an acquire that is sent again is next in the queue", async () => {
    const name = fresh();
    const store = new SemaphoreStore(redis, name, { prefix: "", limit: 1, ttlMs: 30_000 });
    expect(await store.acquire("first", false)).toMatchObject({ acquired: true });
    expect(await store.acquire("twice", true)).toMatchObject({ acquired: false });
    for (const key of [store.keys.times, store.keys.leases])
      await server.command("ZREM", key, "first");
    expect(await store.acquire("twice", true)).toMatchObject({ acquired: true });
    expect(await server.command("EXISTS", store.keys.queue, store.keys.waiters)).toBe(0);
    expect(await store.leave("twice")).toBe(true);
    expect(await server.command("EXISTS", store.keys.times)).toBe(0);
  });

  test("a refresh also moves the time that documented programs look at", async () => {
    const name = fresh();
    const store = new SemaphoreStore(redis, name, { prefix: "", limit: 1, ttlMs: 30_000 });
    await store.acquire("token", false);
    await server.command("ZADD", store.keys.times, "1", "token");
    expect(await store.extend("token")).toBe(true);
    expect(Number(await server.command("ZSCORE", store.keys.times, "token"))).toBeGreaterThan(1e9);
    expect(await store.leave("token")).toBe(true);
  });

  test("a waiter that died is passed over, and one that gives up leaves nothing", async () => {
    const name = fresh();
    const store = new SemaphoreStore(redis, name, { prefix: "", limit: 1, ttlMs: 30_000 });
    const { times, queue, waiters } = store.keys;
    await store.acquire("holder", false);
    for (const token of ["dead", "older", "alive"]) await store.acquire(token, true);
    await server.command("HSET", waiters, "dead", "1 list"); // its place ended
    await server.command("HSET", waiters, "older", `${Date.now() + 3_600_000} list`); // the clock was set back since
    expect(await store.leave("holder")).toBe(true);
    expect(await server.command("ZRANGE", times, "0", "-1")).toEqual(["alive"]);
    await store.acquire("impatient", true);
    expect(await store.leave("impatient")).toBe(false);
    expect(await server.command("EXISTS", queue, waiters)).toBe(0);
    expect(await store.leave("alive")).toBe(true);
  });

  test("a waiter that asks keeps its place, and a queue that nobody asks about expires", async () => {
    const store = new SemaphoreStore(redis, fresh(), { prefix: "", limit: 1, ttlMs: 30_000 });
    const { queue, waiters } = store.keys;
    for (const token of ["holder", "first", "second"]) await store.acquire(token, true);
    for (const key of [queue, waiters])
      expect(Number(await server.command("PTTL", key))).toBeGreaterThan(0);
    await store.ask(["first"]);
    expect(await server.command("ZRANGE", queue, "0", "-1")).toEqual(["first", "second"]);
    for (const token of ["holder", "first", "second"]) expect(await store.leave(token)).toBe(true);
  });

  test("a permit that one of theirs ended goes to the next waiter when its holder learns it", async () => {
    const store = new SemaphoreStore(redis, fresh(), { prefix: "", limit: 1, ttlMs: 30_000 });
    for (const token of ["holder", "waiter"]) await store.acquire(token, true);
    await server.command("ZREM", store.keys.times, "holder");
    expect(await store.extend("holder")).toBe(false);
    expect(await server.command("ZRANGE", store.keys.times, "0", "-1")).toEqual(["waiter"]);
    expect(await store.leave("waiter")).toBe(true);
  });

  test("timeouts, aborts and wrong options", async () => {
    const name = fresh();
    const semaphore = new Semaphore(redis, name);
    const held = await semaphore.acquire();
    await expect(semaphore.acquire({ waitMs: 20 })).rejects.toThrow(NotAcquiredError);
    await expect(semaphore.acquire({ signal: AbortSignal.timeout(20) })).rejects.toThrow(
      AbortedError,
    );
    await eventually(async () => expect(await server.command("EXISTS", `${name}:queue`)).toBe(0));
    await held.release();
    for (const bad of [{ limit: 0 }, { limit: Number.NaN }, { ttlMs: 1 }, { limits: 1 }]) {
      expect(() => new Semaphore(redis, name, bad as object)).toThrow(InvalidOptionError);
    }
  });
});

describe("documented programs", () => {
  /** The clock of Redis, in ms. */
  async function now(): Promise<number> {
    const [seconds, micros] = (await server.command("TIME")) as string[];
    return Number(seconds) * 1_000 + Number(micros) / 1_000;
  }

  /** What a program whose clock is `skewMs` ahead has in Redis after it acquired. */
  async function enter(name: string, token: string, skewMs: number): Promise<void> {
    const counter = await server.command("INCR", `${name}:counter`);
    await server.command("ZADD", name, String(((await now()) + skewMs) / 1_000), token);
    await server.command("ZADD", `${name}:owner`, String(counter), token);
  }

  test.each([-3_600_000, -500, 3_600_000])(
    "a permit of theirs lasts as long as they believe it, with a clock %i ms ahead",
    async (skewMs) => {
      const name = fresh();
      const semaphore = new Semaphore(redis, name, { limit: 1, ttlMs: 1_000 });
      await enter(name, "uuid", skewMs);
      const entered = await now();
      expect(await semaphore.tryAcquire()).toBeUndefined();
      const endOf = async () =>
        Number(String(await server.command("HGET", `${name}:others`, "uuid")).split(" ")[1]);
      const first = await endOf();
      expect(first).toBeGreaterThanOrEqual(Math.floor(entered) + 1_000);
      await eventually(async () => {
        // A refresh gives it a new score.
        await server.command("ZADD", name, String(((await now()) + skewMs) / 1_000), "uuid");
        expect(await semaphore.tryAcquire()).toBeUndefined();
        expect(await endOf()).toBeGreaterThan(first);
      });
      const permit = await semaphore.acquire({ waitMs: 15_000 });
      expect(await now()).toBeGreaterThanOrEqual(entered + 1_000);
      expect(await permit.release()).toBe(true);
      expect(await server.command("EXISTS", ...semaphoreKeys("", name).all)).toBe(0);
    },
  );

  test("an operator's resize, which does not know their timeout, ends no permit of theirs", async () => {
    const name = fresh();
    const inspector = new SemaphoreInspector(redis);
    const note = () => server.command("HGET", `${name}:others`, "uuid");
    await enter(name, "uuid", 0);
    await inspector.resize(name, 1);
    expect(await note()).toBeNull();
    await new Semaphore(redis, name, { ttlMs: 60_000 }).inspect();
    const noted = await note();
    await server.command("ZADD", name, String(((await now()) + 1_000) / 1_000), "uuid"); // a refresh
    await server.command("HSET", `${name}:others`, "uuid", String(noted).replace(/ .*/, " 1"));
    await inspector.resize(name, undefined);
    expect(await server.command("ZCARD", name)).toBe(1);
    await expect(inspector.resize(name, 0)).rejects.toThrow(InvalidArgumentError);
  });

  test("a permit that one of them ended is counted until its holder has learned it", async () => {
    const name = fresh();
    const semaphore = new Semaphore(redis, name, { limit: 2, ttlMs: 60_000 });
    const permit = await semaphore.acquire();
    await server.command("ZREMRANGEBYSCORE", name, "-inf", "+inf"); // by a clock that is far ahead
    await enter(name, "uuid", 0);
    expect(await semaphore.tryAcquire()).toBeUndefined();
    await expect(permit.refresh()).rejects.toThrow(LeaseLostError);
    expect(await (await semaphore.acquire({ waitMs: 0 })).release()).toBe(true);
  });

  test("the counter stays while one of theirs holds a permit, and while one is acquiring", async () => {
    const name = fresh();
    const semaphore = new Semaphore(redis, name, { limit: 2 });
    const permit = await semaphore.acquire();
    await enter(name, "uuid", 0);
    await permit.release();
    expect(await server.command("GET", `${name}:counter`)).toBe("2");
    await server.command("ZREM", name, "uuid");
    await server.command("ZREM", `${name}:owner`, "uuid");
    const last = await semaphore.acquire();
    await server.command("SET", `lock:${name}`, "uuid");
    await last.release();
    expect(await server.command("GET", `${name}:counter`)).toBe("3");
  });

  test("a permit is lost here before a clock that is a second ahead ends it", async () => {
    const semaphore = new Semaphore(redis, fresh(), { ttlMs: 10_000 });
    const real = performance.now.bind(performance);
    for (const refreshes of [false, true]) {
      const permit = await semaphore.acquire({ renew: false });
      if (refreshes) await permit.refresh();
      const later = vi.spyOn(performance, "now").mockImplementation(() => real() + 9_000);
      expect(permit.held).toBe(false);
      later.mockRestore();
      await permit.release();
    }
  });

  test("an entry of theirs counts until their timeout, whatever our clock says", async () => {
    const name = fresh();
    const semaphore = new Semaphore(redis, name, { limit: 1, ttlMs: 400 });
    const [seconds] = (await server.command("TIME")) as string[];
    await server.command("ZADD", name, String(Number(seconds) + 0.5), "uuid");
    await server.command("ZADD", `${name}:owner`, "1", "uuid");
    expect(await semaphore.tryAcquire()).toBeUndefined();
    await (await semaphore.acquire({ waitMs: 5_000 })).release();
    expect(await server.command("EXISTS", name, `${name}:owner`)).toBe(0);
  });

  test("nobody acquires while one of them is between its two transactions", async () => {
    const name = fresh();
    const semaphore = new Semaphore(redis, name, { limit: 1 });
    await server.command("SET", `lock:${name}`, "uuid");
    expect(await semaphore.tryAcquire()).toBeUndefined();
    const waiting = semaphore.acquire();
    await eventually(async () => expect(await server.command("ZCARD", `${name}:queue`)).toBe(1));
    await server.command("DEL", `lock:${name}`);
    await (await waiting).release();
  });

  test("a release hands nothing over while one of them is between its two transactions", async () => {
    const name = fresh();
    const semaphore = new Semaphore(redis, name, { limit: 1 });
    const held = await semaphore.acquire();
    const waiting = semaphore.acquire();
    await eventually(async () => expect(await server.command("ZCARD", `${name}:queue`)).toBe(1));
    await server.command("SET", `lock:${name}`, "uuid");
    expect(await held.release()).toBe(true);
    expect(await semaphore.inspect()).toEqual({ name, limit: 1, held: 0, waiting: 1 });
    await server.command("DEL", `lock:${name}`);
    await (await waiting).release();
  });
});

test("a lock of ours with the name of a semaphore does not hold it up", async () => {
  const name = fresh();
  await using _held = await new Lock(redis, name).acquire();
  const permit = await new Semaphore(other, name).tryAcquire();
  expect(await permit?.release()).toBe(true);
});
