import { connect } from "@ropeway/core";
import type { BlockingConnection } from "@ropeway/core/internal";
import { eventually, startProxy } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { hasBlmpop, ListPopper } from "../src/store/list-popper.ts";
import { PushBuffer } from "../src/store/push-buffer.ts";
import { isPassing } from "../src/store/refusal.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();

const options = {
  push: "RPUSH",
  repeatable: true,
  isPassing: () => false,
  insistMs: 0,
  onError: (error: unknown) => {
    throw error;
  },
} as const;

const event = () => new Promise((resolve) => setImmediate(resolve));

test("messages arrive in the order of their pushes, few or many, on whichever connection", async () => {
  const blocking = stage.keep(await stage.redis.blocking("test", "in"));
  const popper = new ListPopper(stage.redis, blocking, {
    side: "RIGHT",
    modern: hasBlmpop(stage.redis),
  });
  const pushes = new PushBuffer(stage.redis, options);
  pushes.rideOn(() => blocking.whileFree);
  const left = { onRide: 0, onOrdinary: 0 };
  let pushed = 0;
  for (let round = 0; round < 300; round++) {
    // Few, many, many while the connection of the pops is busy; sometimes before the last are answered.
    const popped = round % 3 === 2 ? popper.pop(["in"], { count: 1, blockMs: 5_000 }) : undefined;
    const upto = pushed + (round % 3 === 0 ? 3 : 30);
    while (pushed < upto) pushes.push("out", String(pushed++));
    await event();
    left[pushes.rides ? "onRide" : "onOrdinary"] += 1;
    if (popped !== undefined) await stage.redis.send(["RPUSH", "in", "x"]);
    await popped;
    if (round % 5 === 0) await pushes.drained();
  }
  await pushes.drained();
  const expected = Array.from({ length: pushed }, (_, i) => String(i));
  expect(await stage.server.command("LRANGE", "out", "0", "-1")).toEqual(expected);
  expect(left.onRide).toBeGreaterThan(0);
  expect(left.onOrdinary).toBeGreaterThan(0);
});

test("what is pushed while a connection is cut arrives, doubled at most, and still in order", async () => {
  await using proxy = await startProxy(stage.server);
  const far = stage.keep(await connect(proxy.url));
  const blocking = await far.blocking("test", "in");
  const pushes = new PushBuffer(far, options);
  pushes.rideOn(() => blocking.whileFree);
  for (let i = 0; i < 400; i++) {
    // One in four events pushes enough of them to ride.
    for (let j = 0; j < (i % 4 === 0 ? 10 : 1); j++) pushes.push("out", String(i * 10 + j));
    if (i % 50 === 25) proxy.cut();
    await event();
  }
  await pushes.drained();
  const arrived = (await stage.server.command("LRANGE", "out", "0", "-1")) as string[];
  const first = [...new Set(arrived)].map(Number);
  expect(first).toHaveLength(400 + 100 * 9);
  expect(first).toEqual([...first].sort((a, b) => a - b));
});

test("a packed list expires although its expiry goes by a faster connection than its pushes", async () => {
  await using proxy = await startProxy(stage.server);
  const far = stage.keep(await connect(proxy.url));
  const blocking = await far.blocking("test", "in");
  const pushes = new PushBuffer(stage.redis, { ...options, packs: () => true });
  pushes.rideOn(() => blocking.whileFree);
  proxy.delay(50);
  for (let i = 0; i < 20; i++) pushes.push("packed", String(i), 120);
  await pushes.drained();
  expect(await stage.server.command("LLEN", "packed")).toBe(1);
  await eventually(async () =>
    expect(await stage.server.command("TTL", "packed")).toBeGreaterThan(0),
  );
});

test("a push that is refused for the moment does not wait behind the next pop", async () => {
  const blocking = stage.keep(await stage.redis.blocking("test", "in"));
  const popper = new ListPopper(stage.redis, blocking, {
    side: "RIGHT",
    modern: hasBlmpop(stage.redis),
  });
  const pushes = new PushBuffer(stage.redis, { ...options, isPassing, insistMs: 60_000 });
  pushes.rideOn(() => blocking.whileFree);
  await stage.server.command("CONFIG", "SET", "maxmemory", "1");
  for (let i = 0; i < 20; i++) pushes.push("out", String(i));
  await new Promise((resolve) => process.nextTick(resolve));
  expect(pushes.rides).toBe(true);
  const popped = popper.pop(["in"], { count: 1, blockMs: 600_000 });
  await eventually(() => expect(pushes.rides).toBe(false)); // refused
  pushes.push("out", "20");
  await stage.server.command("CONFIG", "SET", "maxmemory", "0");
  await pushes.drained();
  const arrived = (await stage.server.command("LRANGE", "out", "0", "-1")) as string[];
  expect(arrived.map(Number).sort((a, b) => a - b)).toEqual(
    Array.from({ length: 21 }, (_, i) => i),
  );
  await stage.server.command("RPUSH", "in", "x");
  expect(await popped).toMatchObject({ texts: ["x"] });
});

test("a list whose first push was refused for the moment expires", async () => {
  const pushes = new PushBuffer(stage.redis, {
    ...options,
    isPassing,
    insistMs: 60_000,
    expiresAtOnce: (list) => list === "once",
  });
  await stage.server.command("CONFIG", "SET", "maxmemory", "1");
  pushes.push("once", "1", 120);
  pushes.push("later", "1", 120);
  await eventually(async () => {
    const stats = String(await stage.server.command("INFO", "errorstats"));
    expect(Number(/errorstat_OOM:count=(\d+)/.exec(stats)?.[1])).toBeGreaterThanOrEqual(2);
  });
  await stage.server.command("CONFIG", "SET", "maxmemory", "0");
  await pushes.drained();
  for (const list of ["once", "later"]) {
    expect(await stage.server.command("LLEN", list)).toBe(1);
    expect(await stage.server.command("TTL", list)).toBeGreaterThan(0);
  }
});

test("a push does not wait behind a pop that was sent meanwhile", async () => {
  const blocking = stage.keep(await stage.redis.blocking("test", "in"));
  const popper = new ListPopper(stage.redis, blocking, {
    side: "RIGHT",
    modern: hasBlmpop(stage.redis),
  });
  const pushes = new PushBuffer(stage.redis, options);
  pushes.rideOn(() => blocking.whileFree);
  for (let i = 0; i < 20; i++) pushes.push("out", String(i));
  await new Promise((resolve) => process.nextTick(resolve));
  expect(pushes.rides).toBe(true);
  const popped = popper.pop(["in"], { count: 1, blockMs: 600_000 });
  pushes.push("out", "20"); // before the others have their reply
  await pushes.drained();
  expect(await stage.server.command("LINDEX", "out", "-1")).toBe("20");
  await stage.server.command("RPUSH", "in", "x");
  expect(await popped).toMatchObject({ texts: ["x"] });
});

test("neither a push nor a packed element grows without bound in one event", async () => {
  const packs = (list: string) => list === "packed";
  const sizes: number[] = [];
  const onFlush = (elements: readonly string[], list: string) => {
    if (list === "plain") sizes.push(elements.length);
  };
  const pushes = new PushBuffer(stage.redis, { ...options, packs, onFlush });
  const text = JSON.stringify("x".repeat(1_000));
  for (let i = 0; i < 3_000; i++) {
    pushes.push("plain", text);
    pushes.push("packed", text);
  }
  await pushes.drained();
  expect(Math.max(...sizes)).toBeLessThanOrEqual(1_000);
  expect(await stage.server.command("LLEN", "plain")).toBe(3_000);
  const elements = (await stage.server.command("LRANGE", "packed", "0", "-1")) as string[];
  expect(Math.max(...elements.map(({ length }) => length))).toBeLessThan(70_000);
  expect(elements.flatMap((element) => JSON.parse(element) as string[])).toHaveLength(3_000);
});

test("before Redis 7, what the first half of a pop returned is not lost if the second half fails", async () => {
  const replies = [async () => ["in", "first"], () => Promise.reject(new Error("lost"))];
  const blocking = { interruptible: true, send: () => replies.shift()?.() };
  const popper = new ListPopper(stage.redis, blocking as unknown as BlockingConnection, {
    side: "RIGHT",
    modern: false,
  });
  const popped = await popper.pop(["in"], { count: 10, blockMs: 1_000 });
  expect(popped).toMatchObject({ list: "in", texts: ["first"] });
});

test("closing ends the repetitions of a push that is refused all the time", async () => {
  const lost: string[] = [];
  const onError = (_: unknown, elements: readonly string[]) => void lost.push(...elements);
  const pushes = new PushBuffer(stage.redis, {
    ...options,
    isPassing: () => true,
    insistMs: 600_000,
    onError,
  });
  await stage.redis.send(["SET", "out", "no list"]);
  pushes.push("out", "1");
  await pushes.drained();
  expect(lost).toEqual(["1"]);
});
