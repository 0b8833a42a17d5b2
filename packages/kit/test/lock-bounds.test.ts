import {
  AbortedError,
  connect,
  InvalidArgumentError,
  InvalidOptionError,
  LeaseLostError,
  NotConnectedError,
  TimeoutError,
} from "@ropeway/core";
import { eventually, startProxy, startRedis } from "@ropeway/testkit";
import { describe, expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { Lock, MultiLock, NotAcquiredError, ReadWriteLock } from "../src/lock/index.ts";
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

test("an extension to less time counts from the moment it is sent, however late its reply is", async () => {
  await using proxy = await startProxy(server);
  await using slow = await connect(proxy.url);
  const name = fresh();
  const held = await new Lock(slow, name).acquire({ ttlMs: 60_000, renew: false });
  proxy.delay(300);
  const extending = held.extend(50);
  extending.catch(() => {}); // looked at below
  const next = await eventually(async () => {
    const got = await new Lock(other, name).tryAcquire();
    if (got === undefined) throw new Error("not free yet");
    return got;
  });
  expect(held.signal.aborted).toBe(true);
  await expect(extending).rejects.toThrow(LeaseLostError);
  await next.release();
});

describe("a process that was paused", () => {
  test("finds that several locks are lost as soon as it runs again", async () => {
    const held = await new MultiLock(redis, [fresh(), fresh()], { ttlMs: 100 }).acquire();
    pauseProcess(200);
    expect(held.signal.aborted).toBe(true);
    await held.release();
  });

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

test("an abort ends the wait for several locks at once, also while Redis is unreachable", async () => {
  await using proxy = await startProxy(server);
  await using frozen = await connect(proxy.url);
  const [first, second] = [fresh(), fresh()].sort() as [string, string];
  const held = await new Lock(other, second).acquire();
  const controller = new AbortController();
  const waiting = new MultiLock(frozen, [first, second]).acquire({ signal: controller.signal });
  await sized(lockKeys("", second).queue, 1);
  proxy.halfOpen();
  const lost = frozen.send(["PING"]).catch((error: unknown) => error); // ends when the loss is noticed
  controller.abort();
  const ended = waiting.catch((error: unknown) => error);
  expect(await Promise.race([ended, lost])).toBeInstanceOf(AbortedError);
  await proxy.heal();
  await eventually(async () =>
    expect(await server.command("EXISTS", lockKeys("", first).lock)).toBe(0),
  );
  await held.release();
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

test("work that fails is reported by its own error, also if the release fails", async () => {
  class WorkError extends Error {}
  const name = fresh();
  const ends = [
    (work: () => Promise<void>) => new Lock(redis, name).run(work),
    (work: () => Promise<void>) => new MultiLock(redis, [`${name}m`]).run(work),
    (work: () => Promise<void>) => new Semaphore(redis, `${name}s`).run(work),
  ];
  for (const run of ends) {
    const work = async () => {
      await server.command("ACL", "SETUSER", "default", "-evalsha", "-eval");
      throw new WorkError();
    };
    await expect(run(work)).rejects.toThrow(WorkError);
    await server.command("ACL", "SETUSER", "default", "+evalsha", "+eval");
  }
});

describe("while Redis is away", () => {
  /** Longer than a test may take: only the bounds of the caller end a wait. */
  const offlineWaitMs = 600_000;

  test("waitMs and signal end an acquire, which then holds nothing", async () => {
    await using own = await startRedis({ appendonly: true });
    await using away = await connect(own.url, { offlineWaitMs });
    await own.kill9();
    const lock = new Lock(away, "l");
    const semaphore = new Semaphore(away, "s");
    const token = "rw1:holder:x"; // an entry is bounded as well
    await Promise.all([
      expect(lock.acquire({ waitMs: 50 })).rejects.toThrow(NotAcquiredError),
      expect(semaphore.acquire({ waitMs: 50 })).rejects.toThrow(NotAcquiredError),
      expect(lock.acquire({ signal: AbortSignal.timeout(50) })).rejects.toThrow(AbortedError),
      expect(lock.tryAcquire({ signal: AbortSignal.timeout(50) })).rejects.toThrow(AbortedError),
      expect(lock.acquire({ token, waitMs: 50 })).rejects.toThrow(NotAcquiredError),
      expect(lock.acquire({ token, signal: AbortSignal.timeout(50) })).rejects.toThrow(
        AbortedError,
      ),
      expect(semaphore.acquire({ signal: AbortSignal.timeout(50) })).rejects.toThrow(AbortedError),
    ]);
    await own.start();
    // Redis runs the commands that were waiting, then what undoes them.
    expect(await (await lock.acquire({ waitMs: 10_000 })).release()).toBe(true);
    expect(await (await semaphore.acquire({ waitMs: 10_000 })).release()).toBe(true);
    expect(await semaphore.inspect()).toMatchObject({ held: 0, waiting: 0 });
  });

  test("a Redis that hangs does not hold a caller longer than its waitMs", async () => {
    await using own = await startRedis();
    await using hung = await connect(own.url, { deadAfterMs: 600_000 });
    own.pause();
    try {
      await Promise.all([
        expect(new Lock(hung, "l").acquire({ waitMs: 50 })).rejects.toThrow(NotAcquiredError),
        expect(new Semaphore(hung, "s").acquire({ waitMs: 50 })).rejects.toThrow(NotAcquiredError),
      ]);
    } finally {
      own.resume();
    }
    expect(await (await new Lock(hung, "l").acquire({ waitMs: 10_000 })).release()).toBe(true);
  });

  test("waitMs and signal end a receive, which then holds no message", async () => {
    await using own = await startRedis({ appendonly: true });
    await using away = await connect(own.url, { offlineWaitMs });
    const mailbox = new Mailbox<number>(away, "m", { attempts: 1 });
    for (let n = 0; n < 3; n++) await mailbox.send(n);
    await own.kill9();
    await Promise.all([
      expect(mailbox.receive({ max: 3, waitMs: 50 })).rejects.toThrow(TimeoutError),
      expect(mailbox.receive({ waitMs: null, signal: AbortSignal.timeout(50) })).resolves.toEqual(
        [],
      ),
      expect(mailbox.receive({ signal: AbortSignal.timeout(50) })).resolves.toEqual([]),
    ]);
    await own.start();
    // Redis runs the commands that were waiting, then what undoes them: no attempt is counted.
    const untouched = { waiting: 3, taken: 0, dead: 0 };
    await eventually(async () => expect(await mailbox.counts()).toEqual(untouched));
    const all = await mailbox.receive({ max: 3, waitMs: 10_000 });
    expect(all.map(({ message, attempt }) => [message, attempt])).toEqual([
      [0, 1],
      [1, 1],
      [2, 1],
    ]);
    await mailbox.acknowledge(all);
  });

  test("a feed and a listener wait, and go on when Redis is back", async () => {
    await using own = await startRedis({ appendonly: true });
    await using away = await connect(own.url, { offlineWaitMs: 100 });
    const chat = new Chat<number>(away);
    const room = await chat.create({ sender: "a", recipients: ["b", "c"], message: 1 });
    for (const name of ["b", "c"]) await new Mailbox<number>(away, name).send(1);
    const controller = new AbortController();
    const { signal } = controller;
    const open: Promise<void>[] = [];
    /** Reads the room and a mailbox as `user`; returns what came. */
    const follow = (user: string) => {
      const seen: number[] = [];
      const received: number[] = [];
      const feeding = async () => {
        for await (const event of chat.feed(user, { signal })) {
          if (event.type === "message") seen.push(event.message);
        }
      };
      const listening = async () => {
        for await (const delivery of new Mailbox<number>(away, user).listen({ signal })) {
          received.push(delivery.message);
          await delivery.acknowledge();
        }
      };
      open.push(feeding(), listening());
      return [seen, received];
    };
    const before = follow("b");
    await eventually(() => expect(before).toEqual([[1], [1]]));
    const counts = () => new Mailbox(away, "b").counts();
    await eventually(async () => expect(await counts()).toMatchObject({ taken: 0 }));
    await own.kill9();
    const during = follow("c");
    // Longer away than a command waits: whoever does not wait by itself has failed by now.
    const ping = () => away.send(["PING"]).catch((error) => error);
    for (let i = 0; i < 3; i++) {
      await eventually(async () => expect(await ping()).toBeInstanceOf(NotConnectedError));
    }
    await own.start();
    for (const name of ["b", "c"]) await eventually(() => new Mailbox(away, name).send(2));
    await eventually(() => room.send("a", 2));
    const all = [
      [1, 2],
      [1, 2],
    ];
    await eventually(() => expect([before, during]).toEqual([all, all]));
    controller.abort();
    await Promise.all(open);
  });

  test("the signal ends a feed", async () => {
    await using own = await startRedis();
    await using away = await connect(own.url, { offlineWaitMs });
    await own.kill9();
    const seen: unknown[] = [];
    const signal = AbortSignal.timeout(50);
    for await (const event of new Chat(away).feed("anna", { signal })) seen.push(event);
    expect(seen).toEqual([]);
  });
});

test("a waiter that died before the clock of Redis was set back does not get the lock for that time", async () => {
  const name = fresh();
  const keys = lockKeys("", name);
  const held = await new Lock(redis, name).acquire();
  const waiting = new Lock(other, name).acquire({ waitMs: 20_000 });
  await sized(keys.queue, 1);
  await server.command("HSET", keys.waiters, "rw1:dead", `${Date.now() + 3_600_000} w nowhere`);
  await server.command("ZADD", keys.queue, "0", "rw1:dead");
  await held.release();
  expect(await (await waiting).release()).toBe(true);
  expect(await server.command("EXISTS", keys.queue, keys.waiters, keys.lock)).toBe(0);
});
