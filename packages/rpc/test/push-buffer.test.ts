import { connect } from "@ropeway/core";
import { eventually, startProxy } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { hasBlmpop, ListPopper } from "../src/store/list-popper.ts";
import { PushBuffer } from "../src/store/push-buffer.ts";
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
