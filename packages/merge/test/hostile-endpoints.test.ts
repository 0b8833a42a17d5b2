// Endpoints that do everything wrong: an attempt ends by its timeout, and others continue.
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterEach, describe, expect, test } from "vitest";
import { AddressGuard } from "../src/delivery/address-guard.ts";
import { HttpSender } from "../src/delivery/http-sender.ts";
import {
  DeadLetters,
  Endpoints,
  HttpDispatcher,
  type HttpDispatcherOptions,
  Inspector,
  keyOf,
  MergeQueue,
} from "../src/index.ts";
import { Receiver } from "./receiver.ts";

const { redis } = await redisForFile();
let prefixes = 0;
const open: { close(): Promise<unknown> }[] = [];

afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

function fresh() {
  prefixes += 1;
  const queue = new MergeQueue(redis, { prefix: `e${prefixes}` });
  return { queue, inspector: new Inspector(queue), letters: new DeadLetters(queue) };
}

async function deliver(queue: MergeQueue, options: HttpDispatcherOptions = {}) {
  const quick = { backoff: { delayMs: 20, maxMs: 20 }, breaker: { threshold: 1_000 } };
  const dispatcher = new HttpDispatcher(queue, { allow: ["loopback"], ...quick, ...options });
  open.push(await dispatcher.start());
  return dispatcher;
}

/** A TCP server that runs `serve` for each connection. */
async function rawEndpoint(serve: (socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const raw: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    serve(socket);
  });
  await new Promise<void>((resolve) => raw.listen(0, "127.0.0.1", resolve));
  open.push({
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => raw.close(resolve));
    },
  });
  const { port } = raw.address() as { port: number };
  return { url: `http://127.0.0.1:${port}/`, sockets };
}

const at = (mergeKey: string, url: string) => keyOf({ mergeKey, method: "POST", url }, "");

describe("whatever an endpoint does, an attempt ends by its timeout", () => {
  const hostile: Record<string, (socket: Socket) => void> = {
    "upgrades with 101": (socket) =>
      socket.once("data", () =>
        socket.write(
          "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        ),
      ),
    "sends 100 and nothing else": (socket) =>
      socket.once("data", () => socket.write("HTTP/1.1 100 Continue\r\n\r\n")),
    "closes without a response": (socket) => socket.once("data", () => socket.end()),
    resets: (socket) => socket.once("data", () => socket.resetAndDestroy()),
    "never responds": (socket) => socket.resume(),
    "sends garbage": (socket) => socket.once("data", () => socket.write("\0\u0001garbage\r\n\r\n")),
    "stops in the middle of its headers": (socket) =>
      socket.once("data", () => socket.write("HTTP/1.1 200 OK\r\nx-half:")),
    "sends headers without end": (socket) =>
      socket.once("data", () => {
        socket.write("HTTP/1.1 200 OK\r\n");
        const timer = setInterval(() => socket.write(`x: ${"y".repeat(1_000)}\r\n`), 1);
        socket.on("close", () => clearInterval(timer));
      }),
  };
  test.each(Object.keys(hostile))("%s", async (name) => {
    const { queue, letters } = fresh();
    const bad = await rawEndpoint(hostile[name] as (socket: Socket) => void);
    await using good = await Receiver.start();
    const options = { timeoutMs: 200, attempts: 2, concurrency: 4, perOrigin: 4 };
    const dispatcher = await deliver(queue, options);
    for (let i = 0; i < 8; i++) await queue.push(at(`k${i}`, bad.url), "1");
    await eventually(async () => expect((await letters.list()).items).toHaveLength(8));
    expect((await letters.list()).items.map(({ attempts }) => attempts)).toEqual(Array(8).fill(2));
    await queue.push(at("k", good.url()), "1");
    await eventually(() => expect(good.requests).toHaveLength(1));
    await dispatcher.close();
    await eventually(() => expect(bad.sockets.size).toBe(0));
  });

  test("a body that drips keeps its slot until the timeout, and counts by its status", async () => {
    const { queue, inspector, letters } = fresh();
    let most = 0;
    const bad = await rawEndpoint((socket) => {
      // The batches in the handler: a busy machine may report a new connection before the end of the old one.
      most = Math.max(most, dispatcher.active);
      socket.once("data", () => {
        socket.write("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n");
        const timer = setInterval(() => socket.write("x"), 5);
        socket.on("close", () => clearInterval(timer));
      });
    });
    const dispatcher = await deliver(queue, { timeoutMs: 100, perOrigin: 3 });
    for (let i = 0; i < 12; i++) await queue.push(at(`k${i}`, bad.url), "1");
    await eventually(async () => expect((await inspector.stats()).keys).toBe(0));
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(3);
    expect((await letters.list()).items).toEqual([]);
  });

  test.each([102, 103])("%i before the response is passed over", async (status) => {
    const { queue, inspector } = fresh();
    let requests = 0;
    const chatty = await rawEndpoint((socket) =>
      socket.on("data", () => {
        requests += 1;
        socket.write(`HTTP/1.1 ${status} Wait\r\nlink: </a>\r\n\r\n`.repeat(3));
        setImmediate(() => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
      }),
    );
    await deliver(queue, { attempts: 2 });
    await queue.push(at("k", chatty.url), "1");
    await eventually(async () => expect((await inspector.stats()).keys).toBe(0));
    expect(requests).toBe(1);
    expect((await inspector.stats()).deadLetters).toBe(0);
  });

  test("close cuts requests that hang, and they use up no attempt", async () => {
    const { queue } = fresh();
    let requests = 0;
    const silent = await rawEndpoint((socket) => socket.on("data", () => (requests += 1)));
    const key = at("k", silent.url);
    await queue.push(key, "1");
    const dispatcher = await deliver(queue, { closeWithinMs: 1, timeoutMs: 20_000 });
    await eventually(() => expect(requests).toBe(1));
    await dispatcher.close();
    await eventually(() => expect(silent.sockets.size).toBe(0));
    const batch = await queue.get(key, { leaseMs: 1_000 }); // no longer locked
    expect(batch).toMatchObject({ attempt: 1, items: [{ body: Buffer.from("1") }] });
  });

  test("a request that close cuts gives its place at an endpoint with a limit back", async () => {
    const { queue } = fresh();
    let requests = 0;
    const silent = await rawEndpoint((socket) => socket.on("data", () => (requests += 1)));
    await new Endpoints(queue).limit(silent.url, { concurrency: 1 });
    await queue.push(at("k", silent.url), "1");
    const dispatcher = await deliver(queue, { closeWithinMs: 1, timeoutMs: 20_000 });
    await eventually(() => expect(requests).toBe(1));
    const active = () => redis.send<number>(["ZCARD", queue.keys.active(silent.url)]);
    expect(await active()).toBe(1);
    await dispatcher.close();
    expect(await active()).toBe(0);
  });

  test("a request on a connection that broke is not repeated within its attempt", async () => {
    const { queue, letters } = fresh();
    let requests = 0;
    const bad = await rawEndpoint((socket) =>
      socket.on("data", () => {
        requests += 1;
        if (requests === 1) socket.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        else socket.resetAndDestroy(); // the request was read before
      }),
    );
    await deliver(queue, { attempts: 1 });
    await queue.push(at("one", bad.url), "1");
    await eventually(() => expect(requests).toBe(1));
    await queue.push(at("two", bad.url), "1");
    await eventually(async () => expect((await letters.list()).items).toHaveLength(1));
    expect(requests).toBe(2);
  });
});

test("a request is not begun after its deadline, even if the process stood still while it connected", async () => {
  let bytes = 0;
  const server = createServer((socket) => {
    socket.on("data", (chunk) => {
      bytes += chunk.length;
    });
    socket.on("error", () => {}); // the sender destroys it
    const end = performance.now() + 150;
    while (performance.now() < end); // the sender's timers cannot run, its connection is ready
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const sender = new HttpSender({
    guard: new AddressGuard(["loopback"]),
    maxResponseBytes: 0,
    connectTimeoutMs: 5_000,
  });
  const url = `http://127.0.0.1:${port}/`;
  const request = { url, method: "POST", headers: {}, body: Buffer.from("1"), timeoutMs: 100 };
  await expect(sender.send(request)).rejects.toMatchObject({ code: "TIMEOUT" });
  await sender.close();
  await new Promise((resolve) => server.close(resolve)); // after all its connections
  expect(bytes).toBe(0);
});
