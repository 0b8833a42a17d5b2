import {
  AbortedError,
  connect,
  InvalidArgumentError,
  InvalidOptionError,
  LeaseLostError,
} from "@ropeway/core";
import { eventually, startProxy } from "@ropeway/testkit";
import { describe, expect, test } from "vitest";
import { NotAcquiredError, Semaphore, SemaphoreInspector } from "../src/semaphore/index.ts";
import { semaphoreKeys } from "../src/semaphore/keys.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh, sized } = await twoConnections("sem");

describe("permits", () => {
  test("at most the limit, on the documented keys, and nothing left but the counter", async () => {
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
    for (const permit of permits) expect(await permit.release()).toBe(true);
    const keys = semaphoreKeys("", name);
    expect(await server.command("EXISTS", ...keys.all.filter((key) => key !== keys.counter))).toBe(
      0,
    );
    expect(Number(await server.command("PTTL", keys.counter))).toBeGreaterThan(0);
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

  test("resize admits more, and a smaller limit lets holders finish", async () => {
    const name = fresh();
    const semaphore = new Semaphore(redis, name, { limit: 1 });
    const first = await semaphore.acquire();
    const waiting = new Semaphore(other, name, { limit: 1 }).acquire();
    await eventually(async () => expect(await server.command("ZCARD", `${name}:queue`)).toBe(1));
    await semaphore.resize(2);
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
