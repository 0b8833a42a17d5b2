import { eventually, startRedis } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { expect, test } from "vitest";
import { connect, RedisClock } from "../src/index.ts";

const { redis } = await redisForFile();

test("the clock agrees with Redis within the error it admits", async () => {
  await using clock = await RedisClock.start(redis);
  for (let i = 0; i < 20; i++) {
    // Each reading counts with the error admitted then: a better sample may come during the round trip.
    const earliest = clock.now() - clock.errorMs;
    const [seconds, micros] = await redis.send<readonly string[]>(["TIME"]);
    const latest = clock.now() + clock.errorMs;
    const server = Number(seconds) * 1_000 + Number(micros) / 1_000;
    expect(server).toBeGreaterThanOrEqual(earliest);
    expect(server).toBeLessThanOrEqual(latest);
  }
});

test("a local clock that is an hour off does not matter", async () => {
  const real = Date.now;
  Date.now = () => real() - 3_600_000;
  try {
    await using clock = await RedisClock.start(redis);
    expect(Math.abs(clock.now() - real())).toBeLessThan(1_000 + clock.errorMs);
  } finally {
    Date.now = real;
  }
});

test("the clock closes at once although its Redis does not answer", async () => {
  await using lonely = await startRedis();
  await using other = await connect(lonely.url, { offlineWaitMs: 60_000, heartbeatMs: 60_000 });
  let silent = false;
  other.onReady(() => {
    lonely.pause(); // before the clock, told next, asks
    silent = true;
  });
  const clock = await RedisClock.start(other);
  await lonely.kill9();
  await lonely.start();
  await eventually(() => expect(silent).toBe(true));
  await clock.close();
  lonely.resume();
});
