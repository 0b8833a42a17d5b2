import { eventually, type RedisServer, startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect, type Redis } from "../src/index.ts";

let server: RedisServer;
let redis: Redis;

beforeAll(async () => {
  server = await startRedis();
  redis = await connect(server.url);
});

afterAll(async () => {
  await redis.close();
  await server.close();
});

test("every listener of a channel gets its messages, until it leaves", async () => {
  await using subscriber = await redis.subscriber("test");
  const [one, two]: [string[], string[]] = [[], []];
  const listenOne = (message: Buffer) => void one.push(String(message));
  const listenTwo = (message: Buffer) => void two.push(String(message));
  await subscriber.subscribe("news", listenOne);
  await subscriber.subscribe("news", listenTwo);
  await redis.send(["PUBLISH", "news", "a"]);
  await eventually(() => expect([one, two]).toEqual([["a"], ["a"]]));
  await subscriber.unsubscribe("news", listenOne);
  await redis.send(["PUBLISH", "news", "b"]);
  await eventually(() => expect(two).toEqual(["a", "b"]));
  await subscriber.unsubscribe("news", listenTwo);
  expect(one).toEqual(["a"]);
  expect(await redis.send(["PUBSUB", "NUMSUB", "news"])).toEqual(["news", 0]);
});

test("after a loss the channels are subscribed again and the gap is told", async () => {
  await using subscriber = await redis.subscriber("test");
  const heard: string[] = [];
  let gaps = 0;
  subscriber.onGap(() => {
    gaps += 1;
  });
  await subscriber.subscribe("news", (message) => void heard.push(String(message)));
  await server.kill9();
  await server.start();
  await eventually(() => expect(gaps).toBe(1));
  await redis.send(["PUBLISH", "news", "again"]);
  await eventually(() => expect(heard).toEqual(["again"]));
});
