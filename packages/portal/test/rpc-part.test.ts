import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { RpcServer } from "@ropeway/rpc";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, beforeAll, expect, test } from "vitest";
import { rpcPart } from "../src/index.ts";
import { problemOf, Stage } from "./stage.fixture.ts";

const { server, redis } = await redisForFile(); // the portal's own Redis is the stage's
let stage: Stage;
let worker: RpcServer;
let admin: { authorization: string };
const notified: unknown[] = [];
let stopped = 0;

const handlers = {
  // biome-ignore lint/suspicious/noExplicitAny: by position or by name
  subtract: (params: any) =>
    Array.isArray(params) ? params[0] - params[1] : params.minuend - params.subtrahend,
  fail: () => {
    throw new TypeError("no");
  },
  note: (params: unknown) => notified.push(params),
  async *count([n]: [number]) {
    for (let i = 1; i <= n; i++) yield i;
  },
  slow: (_params: unknown, context: { progress(percent: number, message: string): void }) => {
    context.progress(0.5, "half");
    return "slept";
  },
  hang: (_params: unknown, { signal }: { signal: AbortSignal }) =>
    new Promise((_, reject) =>
      signal.addEventListener("abort", () => {
        stopped += 1;
        reject(new Error("stopped"));
      }),
    ),
};

beforeAll(async () => {
  const options = { ns: "shop", node: "n1", exposeErrors: true };
  worker = await new RpcServer(redis, options).add("demo", handlers).start();
  stage = await Stage.open({ parts: [rpcPart(redis, { timeoutMs: 5_000 })] });
  admin = await stage.bearer();
});

afterAll(async () => {
  await stage.close();
  await worker.close();
});

const post = (body: unknown, headers: Record<string, string> = {}, signal?: AbortSignal) =>
  stage.ask("/rpc/shop/demo", {
    method: "POST",
    headers: { ...admin, "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
    ...(signal && { signal }),
  });
const answer = async (body: unknown) => (await post(body)).json();
const request = (method: string, params?: unknown, id: unknown = 1) => {
  return { jsonrpc: "2.0", method, params, id };
};

test("every route needs an account, and calling needs more than looking", async () => {
  for (const [method, path] of [
    ["GET", "/api/rpc/namespaces"],
    ["GET", "/api/rpc/shop/services"],
    ["POST", "/rpc/shop/demo"],
  ] as const) {
    expect((await stage.ask(path, { method })).status).toBe(401);
  }
  await stage.addAccount("vera", "viewer");
  const viewer = await stage.bearer("vera");
  expect((await stage.ask("/api/rpc/namespaces", { headers: viewer })).status).toBe(200);
  expect((await post(request("subtract", [1, 1]), viewer)).status).toBe(403);
});

test("namespaces and services are listed with methods and workers", async () => {
  const headers = admin;
  expect(await (await stage.ask("/api/rpc/namespaces", { headers })).json()).toEqual({
    namespaces: ["shop"],
  });
  const listed = await (await stage.ask("/api/rpc/shop/services", { headers })).json();
  expect(listed).toMatchObject({
    services: [
      {
        name: "demo",
        ...{ waiting: 0, sessionWaiting: 0, inFlight: 0, dead: 0 },
        workers: [{ node: "n1", host: expect.any(String) }],
      },
    ],
  });
  const metrics = await (await stage.ask("/metrics", { headers })).text();
  expect(metrics).toContain('ropeway_rpc_workers{ns="shop",service="demo"} 1');
});

test("a request is answered by position and by name", async () => {
  expect(await answer(request("subtract", [42, 23]))).toEqual({
    jsonrpc: "2.0",
    result: 19,
    id: 1,
  });
  expect(await answer(request("subtract", { minuend: 42, subtrahend: 23 }, "x"))).toEqual({
    jsonrpc: "2.0",
    result: 19,
    id: "x",
  });
});

test("errors have JSON-RPC's codes and the request's id", async () => {
  expect(await answer(request("nope"))).toMatchObject({ id: 1, error: { code: -32601 } });
  expect(await answer(request("rpc.list"))).toMatchObject({ id: 1, error: { code: -32601 } });
  expect(await answer(request("fail", [], null))).toMatchObject({
    jsonrpc: "2.0",
    id: null,
    error: { code: -32000, message: "no", data: { name: "TypeError" } },
  });
  expect(await answer("{not json")).toEqual({
    jsonrpc: "2.0",
    id: null,
    error: { code: -32700, message: "Parse error" },
  });
  for (const wrong of [
    1,
    {},
    { jsonrpc: "1.0", method: "x", id: 1 },
    { jsonrpc: "2.0", method: 1, id: 1 },
    { jsonrpc: "2.0", method: "x", params: "bar", id: 1 },
    { jsonrpc: "2.0", method: "x", id: {} },
    [],
  ]) {
    expect(await answer(wrong)).toMatchObject({ id: null, error: { code: -32600 } });
  }
});

test("a numeric id that would come back with other digits is refused", async () => {
  const ask = (id: string) =>
    answer(`{"jsonrpc":"2.0","method":"subtract","params":[3,1],"id":${id}}`);
  for (const id of ["9007199254740993", "-12345678901234567890", "1e400"]) {
    expect(await ask(id)).toMatchObject({ id: null, error: { code: -32600 } });
  }
  for (const id of ["9007199254740991", '"12345678901234567890"', "1.5"]) {
    expect(await ask(id)).toEqual({ jsonrpc: "2.0", id: JSON.parse(id), result: 2 });
  }
});

const askOf = (service: string, body: unknown, headers: Record<string, string> = {}) =>
  stage.ask(`/rpc/load/${service}`, {
    method: "POST",
    headers: { ...admin, "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });

test("a method with a dot is none: it would be one of another service", async () => {
  const neighbour = new RpcServer(redis, { ns: "load" }).add("demo.other", {
    deep: () => "reached",
  });
  await neighbour.start();
  const called = await (await askOf("demo", request("other.deep"))).json();
  expect(called).toMatchObject({ id: 1, error: { code: -32601 } });
  const events = await askOf("demo", request("other.deep"), { accept: "text/event-stream" });
  expect(await events.text()).toContain("-32601");
  await neighbour.close();
});

test("a call that its worker refuses because of load has a code of its own", async () => {
  const options = { ns: "load", loadShedding: { maxQueueLength: 0 }, concurrency: 1 };
  const busy = new RpcServer(redis, { ...options, closeWithinMs: 0 });
  await busy.add("busy", { hang: handlers.hang }).start();
  const batch = [1, 2, 3].map((id) => request("hang", [], id));
  const answers = askOf("busy", batch).then((response) => response.json());
  await eventually(() => expect(busy.stats().shed).toBe(2));
  await busy.close();
  const errors = (await answers) as { error: { code: number } }[];
  const codes = errors.map(({ error }) => error.code).sort((a, b) => b - a);
  expect(codes).toEqual([-32004, -32004, -32009]);
}, 30_000);

test("a notification is never answered, not even with an error", async () => {
  const sent = await post({ jsonrpc: "2.0", method: "note", params: [7] });
  expect(sent.status).toBe(204);
  expect(await sent.text()).toBe("");
  await eventually(() => expect(notified).toEqual([[7]]));
  expect((await post({ jsonrpc: "2.0", method: "rpc.x" })).status).toBe(204);
  expect((await post([{ jsonrpc: "2.0", method: "note", params: [8] }])).status).toBe(204);
});

test("a batch has an answer for each request and each fault, none for notifications", async () => {
  const answers = await answer([
    request("subtract", [3, 1], "a"),
    { jsonrpc: "2.0", method: "note", params: [9] },
    1,
    request("nope", [], "b"),
  ]);
  expect(answers).toHaveLength(3);
  expect(answers).toContainEqual({ jsonrpc: "2.0", result: 2, id: "a" });
  expect(answers).toContainEqual(expect.objectContaining({ id: null }));
  expect(answers).toContainEqual(expect.objectContaining({ id: "b" }));
});

test("streams and progress come as server-sent events", async () => {
  const accept = { accept: "text/event-stream" };
  const items = await (await post(request("count", [3]), accept)).text();
  expect(items).toContain('event: item\ndata: {"item":1}\n');
  expect(items).toMatch(/"item":3\}\n\nevent: end\n/);
  const slow = await (await post(request("slow"), accept)).text();
  expect(slow).toMatch(/event: progress\ndata: \{"time":\d+,"percent":0.5,"message":"half"\}/);
  expect(slow).toContain('event: item\ndata: {"item":"slept"}');
  const failed = await (await post(request("fail"), accept)).text();
  expect(failed).toContain('event: error\ndata: {"code":-32000,"message":"no"');
  expect(await (await post("nonsense", accept)).text()).toContain("event: error");
  expect(await (await post("nonsense", accept)).text()).toContain('"code":-32700');
  expect(await (await post("[]", accept)).text()).toContain('"code":-32600');
});

test("who goes away cancels the call", async () => {
  const abort = new AbortController();
  const gone = post(request("hang"), {}, abort.signal);
  gone.catch(() => {});
  await eventually(() => expect(worker.stats().running).toBe(1));
  abort.abort();
  await eventually(() => expect(stopped).toBe(1));
});

test("another content type is refused, and a name that cannot be is a bad request", async () => {
  expect((await post("x", { "content-type": "text/plain" })).status).toBe(415);
  const bad = await stage.ask("/rpc/shop/a%2Fb", {
    method: "POST",
    headers: { ...admin, "content-type": "application/json" },
    body: "{}",
  });
  expect(bad.status).toBe(400);
});

test("reads of many namespaces close no client in use, create nothing, and are 404s", async () => {
  await using own = await Stage.open({ parts: [rpcPart(redis, { timeoutMs: 60_000 })] });
  const headers = await own.bearer();
  const [before, connections] = [await server.command("DBSIZE"), (await server.clients()).length];
  const stop = new AbortController();
  const hanging = own
    .ask("/rpc/shop/demo", { method: "POST", headers, body: request("hang"), signal: stop.signal })
    .catch(() => "left");
  await eventually(async () => {
    const { services } = (await (await own.ask("/api/rpc/shop/services", { headers })).json()) as {
      services: { workers: { running: number }[] }[];
    };
    expect(services[0]?.workers).toHaveLength(1);
  });
  for (let i = 0; i < 100; i++) {
    const unknown = await own.ask(`/api/rpc/nowhere${i}/services`, { headers });
    expect(await problemOf(unknown)).toMatchObject({ status: 404, code: "NOT_FOUND" });
  }
  expect(await Promise.race([hanging, Promise.resolve("still running")])).toBe("still running");
  expect(await server.command("DBSIZE")).toBeLessThanOrEqual(Number(before) + 2); // the call's own
  expect((await server.clients()).length).toBeLessThanOrEqual(connections + 40);
  stop.abort();
  await hanging;
});

test("a connection that carries many calls and a large batch keeps no listener of any", async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const sockets = new Set<unknown>();
  const listeners: number[] = [];
  const count = (socket: Socket) => {
    sockets.add(socket);
    listeners.push(socket.listenerCount("close"));
  };
  const onRequest = (message: unknown) =>
    count((message as { request: IncomingMessage }).request.socket);
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => warnings.push(warning);
  subscribe("http.server.request.start", onRequest);
  process.on("warning", onWarning);
  try {
    const batch = Array.from({ length: 50 }, (_, id) => request("subtract", [id, 1], id));
    for (let sent = 0; sent < 30; sent++) {
      await sendOn(agent, sent % 10 === 0 ? batch : request("subtract", [2, 1]));
    }
    expect(sockets.size).toBe(1);
    expect(Math.max(...listeners)).toBeLessThanOrEqual((listeners[0] ?? 0) + 2);
    expect(warnings).toEqual([]);
  } finally {
    unsubscribe("http.server.request.start", onRequest);
    process.off("warning", onWarning);
    agent.destroy();
  }
});

/** Calls the gateway on the agent's connection; resolves when the response was read. */
function sendOn(agent: Agent, body: unknown): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { ...admin, "content-type": "application/json" };
    const sent = httpRequest(`${stage.url}/rpc/shop/demo`, { method: "POST", agent, headers });
    sent.on("response", (response) => response.resume().on("end", resolve)).on("error", reject);
    sent.end(JSON.stringify(body));
  });
}
