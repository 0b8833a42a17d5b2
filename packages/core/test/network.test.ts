import { once } from "node:events";
import { type AddressInfo, connect as connectTo, createServer, type Socket } from "node:net";
import {
  eventually,
  type FaultProxy,
  type RedisServer,
  startProxy,
  startRedis,
} from "@ropeway/testkit";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { connect } from "../src/index.ts";
import { sleep } from "../src/wait.ts";

let server: RedisServer;
let proxy: FaultProxy;

beforeAll(async () => {
  server = await startRedis();
  proxy = await startProxy(server);
});

afterEach(() => proxy.heal());

afterAll(async () => {
  await proxy.close();
  await server.close();
});

test("a connection cut under load costs only what was under way", async () => {
  await using redis = await connect(proxy.url);
  for (let round = 0; round < 5; round++) {
    const answers = Array.from({ length: 200 }, () => redis.send(["INCR", "cut"]));
    proxy.cut();
    const outcomes = await Promise.allSettled(answers);
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") {
        expect(outcome.reason).toMatchObject({ code: "CONNECTION_LOST" });
      }
    }
    expect(await redis.send(["PING"])).toBe("PONG");
  }
});

test("a peer that fell silent is noticed by the heartbeat, and what waits is rejected", async () => {
  await using redis = await connect(proxy.url, { heartbeatMs: 50, deadAfterMs: 200 });
  proxy.halfOpen();
  await expect(redis.send(["PING"])).rejects.toMatchObject({ code: "CONNECTION_LOST" });
  proxy.heal();
  expect(await redis.send(["PING"])).toBe("PONG");
});

test("a reply that takes longer than deadAfterMs to arrive is not silence", async () => {
  await using redis = await connect(proxy.url, { heartbeatMs: 50, deadAfterMs: 500 });
  await using waiting = await redis.blocking("test", "slow");
  let losses = 0;
  redis.onLost(() => {
    losses += 1;
  });
  waiting.onLost(() => {
    losses += 1;
  });
  const value = "x".repeat(2_000_000);
  await server.command("SET", "slow:string", value);
  await server.command("RPUSH", "slow", value);
  proxy.throttle(1_000_000);
  const [got, popped] = await Promise.all([
    redis.send(["GET", "slow:string"]),
    waiting.send<string[]>(["BLPOP", "slow", "0.01"], { blockMs: 10 }),
  ]);
  expect([got === value, popped?.[1] === value, losses]).toEqual([true, true, 0]);
});

test("a heartbeat that is answered with an error shows that the peer is alive", async () => {
  await server.command("ACL", "SETUSER", "pinger", "reset", "on", ">pw", "~*", "+@all");
  await using redis = await connect(server.url.replace("//", "//pinger:pw@"), { heartbeatMs: 20 });
  let losses = 0;
  redis.onLost(() => {
    losses += 1;
  });
  await server.command("ACL", "SETUSER", "pinger", "-ping");
  await eventually(async () => {
    expect(String(await server.command("ACL", "LOG"))).toContain("ping");
  });
  await redis.send(["GET", "any"]);
  expect(losses).toBe(0);
});

test("a user without permission for CLIENT can connect", async () => {
  const rules = ["reset", "on", ">pw", "~*", "+@all", "-client"];
  await server.command("ACL", "SETUSER", "nobody", ...rules);
  await using redis = await connect(server.url.replace("//", "//nobody:pw@"));
  expect(await redis.send(["GET", "any"])).toBeNull();
});

test("a peer that replies to more than it was asked is refused with the reason", async () => {
  const peer = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.write("+OK\r\n".repeat(50)));
  });
  await once(peer.listen(0, "127.0.0.1"), "listening");
  const { port } = peer.address() as AddressInfo;
  await expect(connect(`redis://127.0.0.1:${port}`, { connectWaitMs: 500 })).rejects.toMatchObject({
    message: expect.stringContaining("an unexpected reply"),
  });
  peer.close();
  await once(peer, "close");
});

test("commands run in the database of the URL, also after a loss", async () => {
  await using redis = await connect(`${proxy.url}/3`);
  await redis.send(["SET", "in:3", "x"]);
  proxy.cut();
  expect(await redis.send(["GET", "in:3"], { repeatable: true })).toBe("x");
  expect(await server.command("GET", "in:3")).toBeNull();
});

test("a server that is still loading its data is not connected to", async () => {
  const peer = createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      for (const [command] of String(bytes).matchAll(/PING|INFO|CLIENT/g)) {
        socket.write(command === "PING" ? "-LOADING Redis is loading\r\n" : "+1\r\n");
      }
    });
  });
  await once(peer.listen(0, "127.0.0.1"), "listening");
  const { port } = peer.address() as AddressInfo;
  await expect(connect(`redis://127.0.0.1:${port}`, { connectWaitMs: 500 })).rejects.toMatchObject({
    message: expect.stringContaining("LOADING"),
  });
  peer.close();
  await once(peer, "close");
});

test("a lost connection leaves no heartbeat behind", async () => {
  const begun = vi.spyOn(globalThis, "setInterval");
  const ended = vi.spyOn(globalThis, "clearInterval");
  const redis = await connect(proxy.url, { heartbeatMs: 12_345 });
  proxy.cut();
  await redis.send(["PING"], { repeatable: true });
  await redis.close();
  const timers = begun.mock.results.filter((_, n) => begun.mock.calls[n]?.[1] === 12_345);
  expect(timers).toHaveLength(2);
  for (const { value } of timers) expect(ended).toHaveBeenCalledWith(value);
  vi.restoreAllMocks();
});

test("answers that arrive byte by byte are whole", async () => {
  await using redis = await connect(proxy.url);
  proxy.split(1);
  const value = "é".repeat(300);
  await redis.send(["SET", "split", value]);
  expect(await redis.send(["MGET", "split", "none", "split"])).toEqual([value, null, value]);
});

test("a connection that is refused for a while is made when it can be", async () => {
  proxy.refuse();
  const connecting = connect(proxy.url, { connectWaitMs: 10_000 });
  await expect(connect(proxy.url, { connectWaitMs: 50 })).rejects.toMatchObject({
    code: "CONNECT_FAILED",
  });
  proxy.heal();
  await using redis = await connecting;
  expect(await redis.send(["PING"])).toBe("PONG");
});

test("closing while the peer is silent ends within its bound", async () => {
  const redis = await connect(proxy.url, { closeWithinMs: 100 });
  proxy.halfOpen();
  const unanswered = expect(redis.send(["PING"])).rejects.toMatchObject({
    code: "CONNECTION_LOST", // it was under way: the server may have applied it
  });
  await redis.close();
  await unanswered;
  proxy.cut();
  await eventually(async () => expect(await server.clients()).toEqual([]));
});

test("closing ends also when the connection breaks while the last answer is awaited", async () => {
  const redis = await connect(proxy.url, { closeWithinMs: 1_000 });
  const last = expect(redis.send(["BLPOP", "never", "60"])).rejects.toMatchObject({
    code: "CONNECTION_LOST",
  });
  await eventually(async () => {
    expect(String(await server.command("INFO", "clients"))).toContain("blocked_clients:1");
  });
  const closed = redis.close();
  proxy.cut();
  await Promise.all([last, closed]);
  await eventually(async () => expect(await server.clients()).toEqual([]));
});

test("closing opens no further connection", async () => {
  const before = await connectionsReceived();
  const redis = await connect(proxy.url);
  await sleep(1_100); // an older link is replaced without a pause
  await redis.close();
  await eventually(async () => expect(await server.clients()).toEqual([]));
  expect(await connectionsReceived()).toBe(before + 1);
});

/** A network in which what was sent on the first connection arrives after what was sent on the next ones. */
async function startLatePath() {
  const held: Buffer[] = [];
  const sockets: Socket[] = [];
  let holding = false;
  const path = createServer((client) => {
    const upstream = connectTo(server.port, server.host);
    const first = sockets.length === 0;
    sockets.push(client, upstream);
    client.on("data", (data) => {
      if (first && holding) held.push(data);
      else upstream.write(data);
    });
    upstream.on("data", (data) => client.destroyed || client.write(data));
    for (const socket of [client, upstream]) socket.on("error", () => {});
    if (!first) client.on("close", () => upstream.destroy());
  });
  await once(path.listen(0, "127.0.0.1"), "listening");
  return {
    url: `redis://127.0.0.1:${(path.address() as AddressInfo).port}`,
    hold: () => {
      holding = true;
    },
    /** The bytes of the first connection arrive now, if the server still has it. */
    deliver: async () => {
      const upstream = sockets[1] as Socket;
      if (upstream.destroyed) return;
      const over = new AbortController();
      const { signal } = over;
      const settled = Promise.race(
        ["data", "close"].map((name) => once(upstream, name, { signal })),
      );
      upstream.write(Buffer.concat(held));
      await settled;
      over.abort();
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => path.close(resolve));
    },
  };
}

test.each([
  ["is not run", "+client|kill", "free"],
  ["is run if the user may not kill connections", "-client|kill", "taken"],
])("a command that arrives when the connection was made again %s", async (_what, right, value) => {
  const rules = ["on", ">secret", "~*", "&*", "+@all", right];
  await server.command("ACL", "SETUSER", "late", "reset", ...rules);
  const path = await startLatePath();
  const redis = await connect(path.url.replace("//", "//late:secret@"), {
    ...{ heartbeatMs: 50, deadAfterMs: 200 },
  });
  path.hold();
  await redis.send(["SET", "late", "taken"], { repeatable: true }); // its first copy is on its way
  await redis.send(["SET", "late", "free"]);
  await path.deliver();
  expect(await server.command("GET", "late")).toBe(value);
  await redis.close();
  await path.close();
});

async function connectionsReceived(): Promise<number> {
  const stats = String(await server.command("INFO", "stats"));
  return Number(/total_connections_received:(\d+)/.exec(stats)?.[1]);
}
