import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually, startProxy, startRedis } from "@ropeway/testkit";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";

let redis: Awaited<ReturnType<typeof startRedis>>;
let proxy: Awaited<ReturnType<typeof startProxy>>;

beforeAll(async () => {
  redis = await startRedis();
  proxy = await startProxy(redis);
});

afterAll(async () => {
  await proxy.close();
  await redis.close();
});

afterEach(async () => {
  await proxy.heal();
  await eventually(() => expect(proxy.connections).toBe(0));
});

/** A client that keeps what it receives as it came. */
async function dial(): Promise<Socket & { pieces: string[] } & AsyncDisposable> {
  const socket = Object.assign(connect(proxy.port, proxy.host), {
    pieces: [] as string[],
    [Symbol.asyncDispose]: () => hangUp(socket),
  });
  socket.on("data", (bytes) => socket.pieces.push(bytes.toString()));
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
}

async function answered(socket: { pieces: string[] }, text: string): Promise<void> {
  await eventually(() => expect(socket.pieces.join("")).toBe(text));
}

// Not `once(socket, "close")`: that rejects if an error comes first.
function closing(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once("close", () => resolve()));
}

async function hangUp(socket: Socket): Promise<void> {
  if (socket.closed) return;
  const closed = closing(socket);
  socket.destroy();
  await closed;
}

test("without faults the proxy is invisible and its URL leads to the server", async () => {
  expect(proxy.url).toBe(`redis://127.0.0.1:${proxy.port}`);
  await using client = await dial();
  client.write("PING\r\n");
  await answered(client, "+PONG\r\n");
  await eventually(() => expect(proxy.connections).toBe(1));
  client.write("QUIT\r\n");
  await once(client, "end");
  await eventually(() => expect(proxy.connections).toBe(0));
});

test("delay holds bytes back each way and keeps their order", async () => {
  await using client = await dial();
  proxy.delay(60);
  const before = performance.now();
  client.write("ECHO 1\r\n");
  client.write("ECHO 2\r\n");
  await answered(client, "$1\r\n1\r\n$1\r\n2\r\n");
  expect(performance.now() - before).toBeGreaterThanOrEqual(120);
});

test("heal releases bytes that a delay holds back", async () => {
  await using client = await dial();
  proxy.delay(3_600_000);
  client.write("PING\r\n");
  await proxy.heal();
  await answered(client, "+PONG\r\n");
});

test("throttle paces a long answer", async () => {
  await redis.command("SET", "long", "x".repeat(2000));
  await using client = await dial();
  proxy.throttle(20_000);
  const before = performance.now();
  client.write("GET long\r\n");
  await answered(client, `$2000\r\n${"x".repeat(2000)}\r\n`);
  expect(performance.now() - before).toBeGreaterThanOrEqual(90);
  expect(client.pieces.length).toBeGreaterThan(3);
});

test("split delivers an answer in pieces of the given size", async () => {
  await using client = await dial();
  proxy.split(2);
  client.write("ECHO hello\r\n");
  await answered(client, "$5\r\nhello\r\n");
  expect(client.pieces).toEqual(["$5", "\r\n", "he", "ll", "o\r", "\n"]);
});

test("cut closes a connection whose end is just being passed on", async () => {
  for (const ticks of [0, 1, 2, 3]) {
    await using client = await dial();
    client.write("PING\r\n");
    await answered(client, "+PONG\r\n");
    proxy.halfOpen();
    client.end();
    await sleep(20);
    await proxy.heal();
    for (let tick = 0; tick < ticks; tick++) await new Promise<void>(process.nextTick);
    proxy.cut();
    await eventually(() => expect(proxy.connections).toBe(0));
  }
});

test("cut resets the connections there are and accepts new ones", async () => {
  await using client = await dial();
  await eventually(() => expect(proxy.connections).toBe(1));
  const failed = once(client, "error");
  proxy.cut();
  await expect(failed).resolves.toMatchObject([{ code: "ECONNRESET" }]);
  await eventually(async () => expect(await redis.clients()).toEqual([]));
  await using next = await dial();
  next.write("PING\r\n");
  await answered(next, "+PONG\r\n");
});

test("a half-open connection is silent on both sides until healed", async () => {
  await using client = await dial();
  client.write("PING\r\n");
  await answered(client, "+PONG\r\n");
  proxy.halfOpen();
  client.write("SET half open\r\n");
  await using late = await dial();
  late.write("PING\r\n");
  await expect(
    eventually(() => expect(client.pieces.length + late.pieces.length).toBe(2), { withinMs: 100 }),
  ).rejects.toThrow();
  await expect(redis.command("EXISTS", "half")).resolves.toBe(0);
  expect(client.closed).toBe(false);
  await proxy.heal();
  await answered(client, "+PONG\r\n+OK\r\n");
  await answered(late, "+PONG\r\n");
});

test("the server does not learn of a client that went while half-open, until healed", async () => {
  await using client = await dial();
  await eventually(async () => expect(await redis.clients()).toHaveLength(1));
  proxy.halfOpen();
  await hangUp(client);
  await expect(
    eventually(async () => expect(await redis.clients()).toEqual([]), { withinMs: 100 }),
  ).rejects.toThrow();
  await proxy.heal();
  await eventually(async () => expect(await redis.clients()).toEqual([]));
});

test("refuse turns new connections away and keeps the others", async () => {
  await using client = await dial();
  await eventually(() => expect(proxy.connections).toBe(1));
  proxy.refuse();
  await expect(dial()).rejects.toMatchObject({ code: "ECONNREFUSED" });
  client.write("PING\r\n");
  await answered(client, "+PONG\r\n");
  await proxy.heal();
  await using next = await dial();
  next.write("PING\r\n");
  await answered(next, "+PONG\r\n");
});

test("a client learns that the server behind the proxy is gone", async () => {
  await using mortal = await startRedis();
  await using front = await startProxy(mortal);
  const client = connect(front.port, front.host);
  client.on("error", () => {});
  client.resume();
  client.write("PING\r\n");
  await eventually(async () => expect(await mortal.clients()).toHaveLength(1));
  const gone = closing(client);
  await mortal.kill9();
  await gone;
  await eventually(() => expect(front.connections).toBe(0));
});

test("a proxy of a socket or of a server with a password has a URL with both", async () => {
  await using hidden = await startRedis({ socket: true, password: "p" });
  await using front = await startProxy(hidden);
  expect(front.url).toBe(`redis://:p@127.0.0.1:${front.port}`);
  const client = connect(front.port, front.host);
  client.write("AUTH p\r\n");
  const [bytes] = await once(client, "data");
  expect(String(bytes)).toBe("+OK\r\n");
  await hangUp(client);
  await eventually(() => expect(front.connections).toBe(0));
});
