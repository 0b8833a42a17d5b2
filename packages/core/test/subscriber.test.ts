import { eventually, startProxy } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { expect, test } from "vitest";
import { connect } from "../src/index.ts";

const { server, redis } = await redisForFile();

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

test("a channel that is left and joined again at once is still heard", async () => {
  await using subscriber = await redis.subscriber("test");
  const heard: string[] = [];
  const listen = (message: Buffer) => void heard.push(String(message));
  await subscriber.subscribe("again", listen);
  for (const pause of [async () => {}, () => new Promise(setImmediate)]) {
    const left = subscriber.unsubscribe("again", listen);
    await pause(); // before the command is written, and before it is answered
    await Promise.all([left, subscriber.subscribe("again", listen)]);
    await redis.send(["PUBLISH", "again", "x"]);
    await eventually(() => expect(heard).toEqual(["x"]));
    heard.length = 0;
  }
});

test("a second listener also waits until the server has confirmed the channel", async () => {
  await using subscriber = await redis.subscriber("test");
  server.pause();
  const confirmed: number[] = [];
  const one = subscriber.subscribe("slow", () => {}).then(() => confirmed.push(1));
  const two = subscriber.subscribe("slow", () => {}).then(() => confirmed.push(2));
  await new Promise(setImmediate);
  const early = [...confirmed];
  server.resume();
  await Promise.all([one, two]);
  expect(early).toEqual([]);
});

test("a channel that is joined during a reconnect is heard once", async () => {
  await using proxy = await startProxy(server);
  await using other = await connect(proxy.url);
  await using subscriber = await other.subscriber("test");
  proxy.refuse();
  proxy.cut();
  await eventually(() => expect(proxy.connections).toBe(0));
  const heard: string[] = [];
  const joined = subscriber.subscribe("late", (message) => void heard.push(String(message)));
  await proxy.heal();
  await joined;
  await redis.send(["PUBLISH", "late", "x"]);
  await redis.send(["PUBLISH", "late", "y"]);
  await eventually(() => expect(heard).toContain("y"));
  expect(heard).toEqual(["x", "y"]);
});

test("a channel that is left during a reconnect is not subscribed to afterwards", async () => {
  await using proxy = await startProxy(server);
  await using other = await connect(proxy.url);
  await using subscriber = await other.subscriber("test");
  let gaps = 0;
  subscriber.onGap(() => {
    gaps += 1;
  });
  const listen = () => {};
  await subscriber.subscribe("left:early", listen);
  proxy.refuse();
  proxy.cut();
  await eventually(() => expect(proxy.connections).toBe(0));
  const waiting = subscriber.subscribe("left:waiting", listen); // waits for the next link
  await Promise.all([
    subscriber.unsubscribe("left:waiting", listen),
    subscriber.unsubscribe("left:early", listen),
  ]);
  await proxy.heal();
  await waiting;
  expect(gaps).toBe(1);
  await subscriber.subscribe("left:last", listen);
  expect(await redis.send(["PUBSUB", "CHANNELS", "left:*"])).toEqual(["left:last"]);
});

test("a channel that is left while a new link subscribes to it is left there, too", async () => {
  await using proxy = await startProxy(server);
  await using other = await connect(proxy.url);
  await using subscriber = await other.subscriber("test");
  let gaps = 0;
  subscriber.onGap(() => {
    gaps += 1;
  });
  const listen = () => {};
  await subscriber.subscribe("during", listen);
  server.pause();
  proxy.cut();
  await eventually(() => expect(proxy.connections).toBe(2)); // both links are connecting
  server.resume();
  await eventually(async () => {
    expect(await redis.send(["PUBSUB", "CHANNELS", "during"])).toEqual(["during"]);
  });
  await subscriber.unsubscribe("during", listen);
  await eventually(async () => {
    expect(gaps).toBe(1);
    expect(await redis.send(["PUBSUB", "CHANNELS", "during"])).toEqual([]);
  });
});

test("a subscription that is cut off before it is confirmed is made on the next connection", async () => {
  await using proxy = await startProxy(server);
  await using other = await connect(proxy.url);
  await using subscriber = await other.subscriber("test");
  proxy.halfOpen();
  const heard: string[] = [];
  const joined = subscriber.subscribe("cut", (message) => void heard.push(String(message)));
  await new Promise(setImmediate);
  proxy.cut();
  await proxy.heal();
  await joined;
  await redis.send(["PUBLISH", "cut", "x"]);
  await eventually(() => expect(heard).toEqual(["x"]));
});

test("a channel that is forbidden is told typed and does not harm the others", async () => {
  await redis.send([
    "ACL",
    "SETUSER",
    "reader",
    "on",
    ">pw",
    "+@all",
    "~*",
    "resetchannels",
    "&ok",
  ]);
  await using other = await connect(server.url.replace("redis://", "redis://reader:pw@"));
  await using subscriber = await other.subscriber("test");
  const heard: string[] = [];
  await subscriber.subscribe("ok", (message) => void heard.push(String(message)));
  await expect(subscriber.subscribe("secret", () => {})).rejects.toMatchObject({
    code: "SERVER_REPLY",
    prefix: "NOPERM",
  });
  let gaps = 0;
  subscriber.onGap(() => {
    gaps += 1;
  });
  await redis.send(["CLIENT", "KILL", "TYPE", "pubsub"]);
  await eventually(() => expect(gaps).toBe(1));
  await redis.send(["PUBLISH", "ok", "x"]);
  await eventually(() => expect(heard).toEqual(["x"]));
});

test("thousands of channels are subscribed again within one connection attempt", async () => {
  await using proxy = await startProxy(server);
  await using other = await connect(proxy.url, { connectTimeoutMs: 1_000 });
  await using subscriber = await other.subscriber("test");
  const names = Array.from({ length: 2_000 }, (_, i) => `many:${i}`);
  await Promise.all(names.map((name) => subscriber.subscribe(name, () => {})));
  let gaps = 0;
  subscriber.onGap(() => {
    gaps += 1;
  });
  proxy.delay(5);
  proxy.cut();
  await eventually(() => expect(gaps).toBe(1), { withinMs: 8_000 });
});
