import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { Heartbeat, type HeartbeatOptions } from "../src/server/heartbeat.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();

function heartbeat(more: Partial<HeartbeatOptions>): Heartbeat {
  return stage.keep(
    new Heartbeat({
      redis: stage.redis,
      node: "n1",
      worker: "w",
      heartbeatMs: 1_000,
      signs: [{ index: "index", key: "works", value: () => "{}" }],
      leases: ["leases"],
      onLapsed: () => {},
      onGone: async () => {},
      onError: () => {},
      ...more,
    }),
  );
}

test.each(["works", "leases"])(
  "a worker whose %s were gone is not alive since before, although it is alive again",
  async (key) => {
    let lapses = 0;
    const onLapsed = () => {
      lapses += 1;
    };
    const beat = heartbeat({ heartbeatMs: 100, onLapsed });
    expect(beat.isAliveSince(performance.now())).toBe(false);
    await beat.start();
    const before = performance.now();
    expect(beat.isAliveSince(before)).toBe(true);
    await stage.server.command("DEL", key);
    await eventually(() => expect(lapses).toBe(1));
    expect(beat.isAliveSince(before)).toBe(false);
    await eventually(() => expect(beat.isAliveSince(performance.now())).toBe(true));
  },
);

test("a worker is not alive any more when its life has ended without a beat, or when it was closed", async () => {
  const beat = heartbeat({});
  await beat.start();
  const since = performance.now();
  const real = performance.now;
  performance.now = () => real.call(performance) + 500;
  expect(beat.isAliveSince(since)).toBe(true);
  performance.now = () => real.call(performance) + 60_000;
  expect(beat.isAliveSince(since)).toBe(false);
  performance.now = real;
  await beat.close();
  expect(beat.isAliveSince(since)).toBe(false);
  expect(await stage.server.command("EXISTS", "works")).toBe(0);
});
