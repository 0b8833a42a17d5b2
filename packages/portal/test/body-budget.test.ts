// Bodies and large pages that are under way are bounded: clients may take a minute to send or read each.
import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { connect as connectSocket, type Socket } from "node:net";
import { deferred } from "@ropeway/core/internal";
import { encodeService, MergeQueue } from "@ropeway/merge";
import { eventually } from "@ropeway/testkit";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { BodyBudget } from "../src/http/body-budget.ts";
import { pageBudget } from "../src/http/page-budget.ts";
import { MergeServer, mergePart } from "../src/index.ts";
import { Stage } from "./stage.fixture.ts";

let stage: Stage;
let queue: MergeQueue;
let service: MergeServer;
beforeAll(async () => {
  stage = await Stage.open({ partsOf: (redis) => [mergePart(new MergeQueue(redis))] });
  queue = new MergeQueue(stage.redis, { prefix: "{bodies}" });
  service = await new MergeServer(queue, { port: 0 }).start();
});
afterAll(async () => {
  await service.close();
  await queue.close();
  await stage.close();
});

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

const MEGABYTE = 1_000_000;

interface Announced {
  readonly path: string;
  readonly bytes: number;
  readonly headers?: Record<string, string>;
}

/** Announces a body and does not send it; resolves with the status that comes anyway. */
function announce(base: string, { path, bytes, headers = {} }: Announced): Promise<number> {
  const { port, hostname, host } = new URL(base);
  const lines = Object.entries({
    host,
    "content-type": "application/json",
    "content-length": String(bytes),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}`);
  return new Promise((resolve, reject) => {
    const socket = connectSocket(Number(port), hostname, () =>
      socket.write(`POST ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`),
    );
    socket.on("data", (chunk) => resolve(Number(String(chunk).split(" ")[1])));
    socket.on("error", reject);
    sockets.push(socket);
  });
}

test("a large body of nobody is refused before it is read", async () => {
  const bytes = 20_000;
  expect(await announce(stage.url, { path: "/api/session", bytes })).toBe(413);
  expect(await announce(stage.url, { path: "/api/nothing", bytes: MEGABYTE })).toBe(404);
  expect(await announce(service.url, { path: "/nothing", bytes: MEGABYTE })).toBe(404);
});

test("an account has a bound for large bodies, which concerns no other account and no small body", async () => {
  await stage.addAccount("vera", "viewer");
  const [headers, admin] = [await stage.bearer("vera"), await stage.bearer()];
  const large = { path: "/api/tokens", bytes: MEGABYTE, headers };
  // 33 of these fit into 32 MiB.
  const statuses = Array.from({ length: 40 }, () => announce(stage.url, large));
  const firstSeven = await new Promise<number[]>((resolve) => {
    const seen: number[] = [];
    for (const status of statuses)
      status.then(
        (value) => seen.push(value) === 7 && resolve(seen),
        () => {},
      );
  });
  expect(firstSeven).toEqual(Array(7).fill(503));
  const post = (name: string, who: { authorization: string }) =>
    stage.ask("/api/tokens", { method: "POST", headers: who, body: { name } });
  expect((await post("small", headers)).status).toBe(201);
  expect((await post("x".repeat(20_000), admin)).status).toBe(400);
  expect((await post("x".repeat(MEGABYTE), headers)).status).toBe(503);
  for (const socket of sockets.splice(0)) socket.destroy();
  await eventually(async () => {
    expect((await post("x".repeat(MEGABYTE), headers)).status).toBe(400);
  });
});

test("the port of the merge queue has a bound for large bodies", async () => {
  const path = "/v3/queue/k/post/http%3A%2F%2F203.0.113.1%2F";
  // 268 of these fit into 256 MiB.
  const statuses = Array.from({ length: 269 }, () =>
    announce(service.url, { path, bytes: MEGABYTE }),
  );
  expect(await Promise.race(statuses)).toBe(503);
});

test("a body counts until its response has ended, for the port and for its account", () => {
  const budget = new BodyBudget("the port");
  const limit = 32 * 1_048_576;
  const headers = { "content-length": String(limit) };
  const coming = (owner: string) => {
    const response = new EventEmitter() as ServerResponse;
    const refusal = budget.refusal({ headers, limit, response, owner });
    return { refusal, response };
  };
  for (let round = 0; round < 2; round++) {
    const bodies = Array.from({ length: 8 }, (_, i) => coming(`account${i}`));
    expect(bodies.map(({ refusal }) => refusal)).toEqual(Array(8).fill(undefined));
    expect(budget.held).toBe(8 * limit);
    expect(coming("another").refusal?.code).toBe("OVERLOADED");
    for (const { response } of bodies) response.emit("close");
    expect(budget.held).toBe(0);
  }
});

test("a push may be as large as on the queue's own port", async () => {
  await using small = await Stage.open({
    partsOf: (own) => [mergePart(new MergeQueue(own), { maxBodyBytes: 2_000_000 })],
  });
  const headers = await small.bearer();
  const path = `/v3/queue/k/POST/${encodeService("http://8.8.8.8/")}?ontime=4000000000`;
  const push = (bytes: number) =>
    small.ask(path, { method: "POST", headers, body: `"${"x".repeat(bytes)}"` });
  expect((await push(1_500_000)).status).toBe(202);
  expect((await push(2_500_000)).status).toBe(413);
});

/** Sends a request many times at once over one connection; the statuses in order. */
function askAtOnce(base: string, { times, path, headers = {} }: Repeated): Promise<number[]> {
  const { port, hostname, host } = new URL(base);
  const lines = Object.entries({ host, ...headers }).map(([name, value]) => `${name}: ${value}`);
  const text = `GET ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`;
  return new Promise((resolve, reject) => {
    let received = "";
    const socket = connectSocket(Number(port), hostname, () => socket.write(text.repeat(times)));
    socket.on("data", (chunk) => {
      received += chunk;
      const statuses = [...received.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) =>
        Number(status),
      );
      if (statuses.length === times) resolve(statuses);
    });
    socket.on("error", reject);
    sockets.push(socket);
  });
}

interface Repeated {
  readonly times: number;
  readonly path: string;
  readonly headers?: Record<string, string>;
}

test("the port of the merge queue has a bound for pages that are being read", async () => {
  const path = `/v3/queue/k/POST/${encodeService("http://8.8.8.8/")}`;
  const statuses = await askAtOnce(service.url, { times: 130, path });
  expect(statuses).toEqual([...Array(128).fill(200), 503, 503]);
  expect((await fetch(`${service.url}${path}`)).status).toBe(200);
});

test("an account has a bound for pages that are being read, which concerns no other account", async () => {
  await stage.addAccount("paul", "viewer");
  const [headers, admin] = [await stage.bearer("paul"), await stage.bearer()];
  const path = `/v3/queue/k/POST/${encodeService("http://8.8.8.8/")}`;
  const many = askAtOnce(stage.url, { times: 300, path, headers });
  expect((await stage.ask(path, { headers: admin })).status).toBe(200);
  const statuses = await many;
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(32);
  expect(statuses).toContain(503);
  expect((await stage.ask(path, { headers })).status).toBe(200);
});

/** Sends requests on connections of their own and breaks each connection before there is a response. */
async function disconnect(base: string, { times, path, headers = {}, method = "GET" }: Broken) {
  const { port, hostname, host } = new URL(base);
  const lines = Object.entries({ host, ...headers }).map(([name, value]) => `${name}: ${value}`);
  const text = `${method} ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`;
  const one = () =>
    new Promise<void>((resolve) => {
      const socket = connectSocket(Number(port), hostname, () => socket.write(text));
      sockets.push(socket);
      socket.on("error", () => {});
      socket.on("close", () => resolve());
      // The request has been read once a later one on another connection has its response.
      socket.on("connect", () => refused(base).then(() => socket.resetAndDestroy()));
    });
  await Promise.all(Array.from({ length: times }, one));
  await refused(base);
}

/** A request that needs no Redis. */
async function refused(base: string): Promise<void> {
  expect((await fetch(`${base}/nothing`)).status).toBe(404);
}

interface Broken extends Repeated {
  readonly method?: string;
}

test("requests whose client disconnects while they are being authenticated take no room", async () => {
  await stage.addAccount("gina", "viewer");
  const headers = await stage.bearer("gina");
  const path = `/v3/queue/k/POST/${encodeService("http://8.8.8.8/")}`;
  const json = { ...headers, "content-type": "application/json" };
  const large = { ...json, "content-length": String(MEGABYTE) };
  stage.server.pause();
  try {
    await disconnect(stage.url, { times: 40, path, headers });
    await disconnect(stage.url, { times: 40, path: "/api/tokens", method: "POST", headers: large });
  } finally {
    stage.server.resume();
  }
  const page = await stage.ask(path, { headers });
  expect(page.status).toBe(200);
  const body = { name: "x".repeat(MEGABYTE) };
  const token = await stage.ask("/api/tokens", { method: "POST", headers, body });
  expect(token.status).toBe(400);
  await eventually(async () => {
    const audit = await stage.ask("/api/audit?limit=100", { headers: await stage.bearer() });
    const { items } = (await audit.json()) as { items: { actor: string; status: number }[] };
    const ends = items.filter(({ actor }) => actor === "gina").map(({ status }) => status);
    expect(ends.filter((status) => status === 499)).toHaveLength(40);
    expect(ends).not.toContain(0);
  });
});

test("a page takes room until Redis has sent it, although its client has disconnected", async () => {
  await using patient = await new MergeServer(queue, { port: 0, redisSilenceMs: 60_000 }).start();
  const path = `/v3/queue/k/POST/${encodeService("http://8.8.8.8/")}`;
  stage.server.pause();
  try {
    await disconnect(patient.url, { times: 128, path });
    const refusal = await fetch(`${patient.url}${path}`);
    expect(refusal.status).toBe(503);
    expect(await refusal.json()).toMatchObject({ code: "OVERLOADED" });
  } finally {
    stage.server.resume();
  }
  await eventually(async () => expect((await fetch(`${patient.url}${path}`)).status).toBe(200));
});

test("the bytes of a response count until it and its work have ended, in any order", async () => {
  const budget = pageBudget("the port");
  const held = () => {
    const response = new EventEmitter() as ServerResponse;
    const work = deferred<void>();
    expect(budget.refusal({ bytes: 1, response, owner: "gina" })).toBeUndefined();
    budget.during(response, work.promise);
    return { response, work };
  };
  const [first, second] = [held(), held()];
  first.response.emit("close");
  second.work.reject(new Error("no"));
  await second.work.promise.catch(() => {});
  expect(budget.held).toBe(2);
  second.response.emit("close");
  first.work.resolve();
  await first.work.promise;
  expect(budget.held).toBe(0);
  const ended = Object.assign(new EventEmitter(), { destroyed: true }) as ServerResponse;
  expect(budget.refusal({ bytes: 1, response: ended })).toBeUndefined();
  expect(budget.held).toBe(0);
});
