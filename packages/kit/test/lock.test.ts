import {
  AbortedError,
  connect,
  InvalidNameError,
  InvalidOptionError,
  LeaseLostError,
} from "@ropeway/core";
import { eventually, startProxy } from "@ropeway/testkit";
import { describe, expect, test } from "vitest";
import { Lease } from "../src/lease.ts";
import { Lock, LockInspector, NotAcquiredError } from "../src/lock/index.ts";
import { lockKeys } from "../src/lock/keys.ts";
import { LockStore } from "../src/lock/store.ts";
import { Mailbox } from "../src/mailbox/index.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh, sized } = await twoConnections("n");

const commandsOf = async () => {
  const stats = String(await server.command("INFO", "commandstats"));
  const counted = ["evalsha", "blpop"].map((name) =>
    Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0),
  );
  return counted.reduce((sum, calls) => sum + calls, 0);
};

describe("one holder", () => {
  test("acquire, exclude, release: the key of the document holds the token", async () => {
    const name = fresh();
    const lock = new Lock(redis, name);
    const held = await lock.acquire({ ttlMs: 5_000 });
    expect(await server.command("GET", `lock:${name}`)).toBe(held.token);
    expect(Number(await server.command("PTTL", `lock:${name}`))).toBeGreaterThan(1_000);
    expect(await new Lock(other, name).tryAcquire()).toBeUndefined();
    await expect(new Lock(other, name).acquire({ waitMs: 30 })).rejects.toThrow(NotAcquiredError);
    expect(await held.release()).toBe(true);
    expect(await held.release()).toBe(true);
    expect(await server.command("EXISTS", `lock:${name}`)).toBe(0);
    expect(held.held).toBe(false);
    expect(held.signal.aborted).toBe(false);
  });

  test("an uncontended lock costs one command and one command", async () => {
    const lock = new Lock(redis, fresh());
    await (await lock.acquire()).release(); // loads the script
    await server.command("CONFIG", "RESETSTAT");
    await (await lock.acquire()).release();
    const stats = String(await server.command("INFO", "commandstats"));
    const calls = [...stats.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)].map(([, name, count]) => ({
      name,
      count: Number(count),
    }));
    expect(calls.find(({ name }) => name === "evalsha")?.count).toBe(2);
    // Six inside the first script and three inside the second, besides the two themselves.
    const inside = calls.filter(({ name }) => !/^(evalsha|config|info)/.test(name ?? ""));
    expect(inside.reduce((sum, { count }) => sum + count, 0)).toBe(9);
  });

  test("run returns the result, releases after an error, and passes the held lock", async () => {
    const lock = new Lock(redis, fresh());
    expect(await lock.run((held) => held.fence > 0)).toBe(true);
    await expect(lock.run(() => Promise.reject(new Error("no")))).rejects.toThrow("no");
    await using again = await lock.acquire({ waitMs: 0 });
    expect(again.held).toBe(true);
  });

  test("release and extend by somebody else change nothing", async () => {
    const name = fresh();
    const mine = await new Lock(redis, name).acquire({ ttlMs: 10_000, renew: false });
    await server.command("SET", `lock:${name}`, "somebody-else");
    await expect(mine.extend()).rejects.toThrow(LeaseLostError);
    expect(mine.signal.reason).toBeInstanceOf(LeaseLostError);
    expect(await mine.release()).toBe(false);
    expect(await server.command("GET", `lock:${name}`)).toBe("somebody-else");
  });

  test("ttlMs null never expires, also when it was handed over", async () => {
    const name = fresh();
    const lock = new Lock(redis, name, { ttlMs: null });
    const first = await lock.acquire();
    expect(await server.command("PTTL", `lock:${name}`)).toBe(-1);
    const second = lock.acquire();
    await sized(lockKeys("", name).queue, 1);
    await first.release();
    const held = await second;
    expect(await server.command("PTTL", `lock:${name}`)).toBe(-1);
    await held.release();
  });

  test("wrong names and options are refused", async () => {
    for (const name of ["", "\ud800", "x".repeat(1_025), 7 as unknown as string]) {
      expect(() => new Lock(redis, name)).toThrow(InvalidNameError);
    }
    for (const bad of [
      { ttlMs: 0 },
      { ttlMs: Number.NaN },
      { waitMs: -1 },
      { owner: "a b" },
      { prefix: "a{" },
      { tllMs: 5 },
    ]) {
      expect(() => new Lock(redis, "x", bad as object)).toThrow(InvalidOptionError);
    }
    const lock = new Lock(redis, fresh());
    await expect(lock.acquire({ ttlMs: 1e21 })).rejects.toThrow(InvalidOptionError);
    await expect(lock.acquire({ waitMs: Number.NaN })).rejects.toThrow(InvalidOptionError);
  });

  test("a wrong type under any of its keys is an error that changes nothing", async () => {
    const name = fresh();
    const keys = lockKeys("", name);
    for (const key of [keys.lock, keys.fence, keys.queue]) {
      await server.command("SADD", key, "x");
      await expect(new Lock(redis, name).acquire({ waitMs: 50 })).rejects.toMatchObject({
        code: "WRONG_KEY_TYPE",
      });
      expect(await server.command("DEL", key)).toBe(1);
      expect(await server.command("EXISTS", ...keys.all)).toBe(0);
    }
  });
});

describe("fence", () => {
  test("rises with every acquisition, after expiry of every key, and after FLUSHALL", async () => {
    const name = fresh();
    const lock = new Lock(redis, name);
    let last = 0;
    for (let i = 0; i < 30; i++) {
      if (i % 7 === 3) await server.command("FLUSHALL");
      if (i % 7 === 5) await server.command("DEL", ...lockKeys("", name).all);
      const held = await lock.acquire();
      expect(held.fence).toBeGreaterThan(last);
      expect(Number.isSafeInteger(held.fence)).toBe(true);
      last = held.fence;
      await held.release();
    }
  });

  test("rises when the clock of Redis is behind the last fence, and its key outlives the difference", async () => {
    const name = fresh();
    const keys = lockKeys("", name);
    const future = (Date.now() + 7_200_000) * 1_000;
    await server.command("SET", keys.fence, String(future));
    const first = await new Lock(redis, name).acquire();
    expect(first.fence).toBe(future + 1);
    expect(Number(await server.command("PTTL", keys.fence))).toBeGreaterThan(
      7_200_000 + 80_000_000,
    );
    await first.release();
  });
});

describe("waiting", () => {
  test("64 contenders in two processes' worth of connections are served in order, without polling", async () => {
    const name = fresh();
    const first = await new Lock(redis, name).acquire();
    const order: number[] = [];
    const locks = [new Lock(redis, name), new Lock(other, name)];
    const all: Promise<void>[] = [];
    for (let i = 0; i < 64; i++) {
      all.push((locks[i % 2] as Lock).run(() => void order.push(i), { waitMs: 15_000 }));
      await sized(lockKeys("", name).queue, i + 1);
    }
    await server.command("CONFIG", "RESETSTAT");
    const since = performance.now();
    await first.release();
    await Promise.all(all);
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(order).toHaveLength(64);
    // Each connection renews its places every 1.5 s: on a busy machine that happens meanwhile.
    const renewals = 2 * Math.ceil((performance.now() - since) / 1_500);
    expect(await commandsOf()).toBeLessThan(64 * 4 + renewals);
  });

  test("a waiter takes over when the holder's time ends, and dead waiters are passed over", async () => {
    const name = fresh();
    const keys = lockKeys("", name);
    await using gone = await connect(server.url);
    await new Lock(gone, name).acquire({ ttlMs: 300, renew: false });
    const place = `${Date.now() - 1} w nowhere`;
    await server.command("ZADD", keys.queue, "1", "rw1:dead");
    await server.command("HSET", keys.waiters, "rw1:dead", place);
    const held = await new Lock(redis, name).acquire({ waitMs: 3_000 });
    expect(held.held).toBe(true);
    await held.release();
    expect(await server.command("EXISTS", keys.queue, keys.waiters, keys.lock)).toBe(0);
  });

  test("a lost wake-up costs at most a turn of asking", async () => {
    const name = fresh();
    const first = await new Lock(redis, name).acquire();
    const waiting = new Lock(other, name).acquire({ waitMs: 8_000 });
    await sized(lockKeys("", name).queue, 1);
    // What a releaser that died before waking leaves: the lock already belongs to the waiter.
    const [token] = (await server.command(
      "ZRANGE",
      lockKeys("", name).queue,
      "0",
      "0",
    )) as string[];
    await server.command("DEL", lockKeys("", name).queue, lockKeys("", name).waiters);
    await server.command("SET", `lock:${name}`, token as string, "PX", "5000");
    const held = await waiting;
    expect(held.token).toBe(token);
    expect(await first.release()).toBe(false);
    expect(await held.release()).toBe(true);
  });

  test("abort and timeout give the place back", async () => {
    const name = fresh();
    const first = await new Lock(redis, name).acquire();
    const controller = new AbortController();
    const waiting = new Lock(other, name).acquire({ signal: controller.signal, waitMs: null });
    await sized(lockKeys("", name).queue, 1);
    controller.abort();
    await expect(waiting).rejects.toThrow(AbortedError);
    await sized(lockKeys("", name).queue, 0);
    await first.release();
    await expect(new Lock(redis, name).acquire({ signal: controller.signal })).rejects.toThrow(
      AbortedError,
    );
  });

  test("fair: false frees the lock and wakes a waiter, who gets it", async () => {
    const name = fresh();
    const plain = { fair: false };
    const first = await new Lock(redis, name, plain).acquire();
    const waiting = new Lock(other, name, plain).acquire({ waitMs: 5_000 });
    await sized(lockKeys("", name).queue, 1);
    await first.release();
    expect(await (await waiting).release()).toBe(true);
  });
});

describe("loss", () => {
  test("renewal keeps a short lock, and a break aborts the signal", async () => {
    const name = fresh();
    const inspector = new LockInspector(redis);
    const held = await new Lock(redis, name).acquire({ ttlMs: 3_000 });
    const leftMs = async () => (await inspector.get(name))?.leftMs ?? 0;
    // Renewed after a third of its time: what is left of it falls, and then rises again.
    await eventually(async () => expect(await leftMs()).toBeLessThan(2_500));
    await eventually(async () => expect(await leftMs()).toBeGreaterThan(2_500));
    expect(held.held).toBe(true);
    expect(await inspector.break(name, "not the holder")).toBe(false);
    expect(await inspector.break(name)).toBe(true);
    await eventually(() => expect(held.signal.aborted).toBe(true));
    expect(await held.release()).toBe(false);
  });

  test("the signal aborts before Redis lets go, also while Redis cannot be reached", async () => {
    await using proxy = await startProxy(server);
    await using cut = await connect(proxy.url);
    const name = fresh();
    const held = await new Lock(cut, name).acquire({ ttlMs: 600 });
    proxy.refuse();
    proxy.cut();
    const next = await new Lock(redis, name).acquire({ waitMs: 15_000 });
    expect(held.signal.aborted).toBe(true);
    expect(next.fence).toBeGreaterThan(held.fence);
    await next.release();
    proxy.heal();
    expect(await held.release()).toBe(false);
  });

  test("an extension counts from the moment before it was sent, less a margin", async () => {
    const plan = { what: "a lease", kind: "lock", renew: false, extend: async () => true } as const;
    const lease = new Lease({
      ...plan,
      logger: redis.logger,
      ttlMs: 1_000,
      safeUntil: performance.now() + 1_000,
    });
    await lease.extend(60_000);
    expect(lease.dueAt).toBeLessThan(performance.now() + 60_000);
    expect(lease.end()).toBe(true);
  });

  test("maxHoldMs ends the renewals of a holder that hangs", async () => {
    const name = fresh();
    const held = await new Lock(redis, name).acquire({ ttlMs: 150, maxHoldMs: 200 });
    await eventually(() => expect(held.signal.aborted).toBe(true));
    await (await new Lock(other, name).acquire()).release();
  });

  test("a lease is not renewed after maxHoldMs", async () => {
    const ttlMs = 1_500;
    let renewals = 0;
    const lease = new Lease({
      ...{ what: "a lease", kind: "lock", ttlMs, renew: true, maxHoldMs: 1 },
      ...{ logger: redis.logger, safeUntil: performance.now() + ttlMs },
      extend: async () => {
        renewals += 1;
        return true;
      },
    });
    await eventually(() => expect(lease.signal.aborted).toBe(true));
    expect(renewals).toBe(0);
  });

  test("an acquire that is sent again finds what the first one did", async () => {
    const name = fresh();
    for (const mode of ["write", "read"] as const) {
      const store = new LockStore(redis, name, { prefix: "", mode, fair: true });
      const request = { token: `rw1:${mode}:test`, ttlMs: 60_000, wait: false };
      const { fence: first = 0 } = await store.acquire(request);
      const { fence: again = 0 } = await store.acquire(request);
      expect(first).toBeGreaterThan(0);
      expect(again).toBeGreaterThan(first);
      expect(await store.leave(request.token, "0")).toBe(true);
    }
  });

  test.each([true, false])(
    "an acquire that is sent again is next in the queue, fair: %s",
    async (fair) => {
      const name = fresh();
      const store = new LockStore(redis, name, { prefix: "", mode: "write", fair });
      const request = { token: "rw1:twice:x", ttlMs: 30_000, wait: true };
      await server.command("SET", store.keys.lock, "theirs");
      expect((await store.acquire(request)).fence).toBeUndefined();
      await server.command("DEL", store.keys.lock);
      expect((await store.acquire(request)).fence).toBeGreaterThan(0);
      expect(await server.command("EXISTS", store.keys.queue, store.keys.waiters)).toBe(0);
      expect(await store.leave(request.token, "0")).toBe(true);
      expect(await server.command("EXISTS", store.keys.lock)).toBe(0);
    },
  );

  test("an acquire whose reply was lost holds the lock, or leaves nothing", async () => {
    await using proxy = await startProxy(server);
    await using cut = await connect(proxy.url);
    const name = fresh();
    const lock = new Lock(cut, name);
    await (await lock.acquire()).release();
    for (let i = 0; i < 10; i++) {
      const acquiring = lock.acquire({ ttlMs: 60_000, waitMs: 2_000 });
      proxy.cut();
      const held = await acquiring;
      expect(await server.command("GET", `lock:${name}`)).toBe(held.token);
      expect(await held.release()).toBe(true);
    }
    expect(await server.command("EXISTS", `lock:${name}`)).toBe(0);
  });
});

test("a process that does not wait any more gives up the connection on which it waited", async () => {
  const lock = new Lock(redis, fresh());
  const first = await lock.acquire();
  const second = lock.acquire();
  const receiving = new Mailbox(redis, fresh()).receive({ waitMs: 50 });
  await eventually(async () =>
    expect(await server.command("CLIENT", "LIST")).toContain("cmd=blpop"),
  );
  await first.release();
  await (await second).release();
  expect(await receiving).toEqual([]);
  await eventually(async () =>
    expect(await server.command("CLIENT", "LIST")).not.toContain("cmd=blpop"),
  );
}, 40_000);
