import { connect, InvalidArgumentError, InvalidOptionError } from "@ropeway/core";
import { startProxy } from "@ropeway/testkit";
import { describe, expect, test } from "vitest";
import { Lock, ReadWriteLock } from "../src/lock/index.ts";
import { lockKeys } from "../src/lock/keys.ts";
import { Mailbox } from "../src/mailbox/index.ts";
import { Semaphore } from "../src/semaphore/index.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh, sized } = await twoConnections("b");

/** Longer than the lease of a place in a queue: no timer of this process runs meanwhile. */
function pauseProcess(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

describe("times per call", () => {
  test("a reader without an end is refused, since a writer would not wait for it", async () => {
    const lock = new ReadWriteLock(redis, fresh());
    await expect(lock.read.acquire({ ttlMs: null })).rejects.toThrow(InvalidOptionError);
    const reader = await lock.read.acquire();
    await expect(reader.extend(null)).rejects.toThrow(InvalidArgumentError);
    expect(await lock.write.tryAcquire()).toBeUndefined();
    expect(await reader.release()).toBe(true);
  });

  test.each([0, -1, 9, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 1e21, "100"])(
    "extend(%s) is refused and changes nothing",
    async (ttlMs) => {
      const name = fresh();
      const held = await new Lock(redis, name).acquire({ ttlMs: 5_000 });
      await expect(held.extend(ttlMs as number)).rejects.toThrow(InvalidArgumentError);
      expect(Number(await server.command("PTTL", lockKeys("", name).lock))).toBeGreaterThan(0);
      expect(held.held).toBe(true);
      expect(await held.release()).toBe(true);

      const box = new Mailbox<number>(redis, name);
      await box.send(1);
      const [delivery] = await box.receive();
      await expect(delivery?.extend(ttlMs as number)).rejects.toThrow(InvalidArgumentError);
      expect(await delivery?.acknowledge()).toBe(true);
    },
  );
});

describe("a process that was paused", () => {
  test("goes on waiting for a lock that was handed to it meanwhile", {
    timeout: 40_000,
  }, async () => {
    const name = fresh();
    const first = await new Lock(other, name).acquire({ ttlMs: 60_000 });
    const waiting = new Lock(redis, name).acquire({ waitMs: 30_000 });
    await sized(lockKeys("", name).queue, 1);
    void first.release(); // leaves this process in the same turn, and its reply waits for the pause
    await new Promise((resolve) => setImmediate(resolve));
    pauseProcess(5_500);
    const held = await waiting;
    expect(held.held).toBe(true);
    expect(await server.command("GET", lockKeys("", name).lock)).toBe(held.token);
    expect(await held.release()).toBe(true);
  });

  test("goes on waiting for a permit", { timeout: 40_000 }, async () => {
    const name = fresh();
    const first = await new Semaphore(other, name).acquire();
    const waiting = new Semaphore(redis, name).acquire({ waitMs: 30_000 });
    await sized(`${name}:queue`, 1);
    void first.release();
    await new Promise((resolve) => setImmediate(resolve));
    pauseProcess(5_500);
    const permit = await waiting;
    expect(permit.held).toBe(true);
    expect(await permit.release()).toBe(true);
  });
});

describe("a release that failed", () => {
  test("can be repeated, so a lock without an end is not locked for ever", async () => {
    await using proxy = await startProxy(server);
    await using cut = await connect(proxy.url);
    const name = fresh();
    const held = await new Lock(cut, name).acquire({ ttlMs: null });
    const permit = await new Semaphore(cut, `${name}s`, { ttlMs: 60_000 }).acquire();
    // An error that comes back: the script is refused while another one runs.
    await server.command("ACL", "SETUSER", "default", "-evalsha", "-eval");
    await expect(held.release()).rejects.toThrow();
    await expect(permit.release()).rejects.toThrow();
    await server.command("ACL", "SETUSER", "default", "+evalsha", "+eval");
    expect(await held.release()).toBe(true);
    expect(await permit.release()).toBe(true);
    expect(await server.command("EXISTS", lockKeys("", name).lock)).toBe(0);
  });
});
