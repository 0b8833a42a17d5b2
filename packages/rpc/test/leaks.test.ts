import { connect } from "@ropeway/core";
import { eventually, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { createClient, RpcClient, RpcServer } from "../src/index.ts";
import { RequestSweeper } from "../src/store/request-sweeper.ts";
import { JsonRpcDialect } from "../src/wire/jsonrpc-dialect.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();
const echo = { echo: ([value]: unknown[]) => value };
const REQUEST = "/api/t/request/demo";
const INDEX = "/api/t/index/requests";

test("a start that fails leaves nothing: no connection, no key, and it can be tried again", async () => {
  await stage.server.command("SET", "/api/t/services", "not a set");
  const before = (await stage.server.clients()).length;
  const server = new RpcServer(stage.redis, { ns: "t" }).add("demo", echo);
  await expect(server.start()).rejects.toMatchObject({ code: "WRONG_KEY_TYPE" });
  expect(server.state).toBe("idle");
  await eventually(async () => expect((await stage.server.clients()).length).toBe(before));
  expect(await stage.server.command("KEYS", "/api/t/works/*")).toEqual([]);
  await stage.server.command("DEL", "/api/t/services");
  stage.keep(await server.start());
  await expect((await stage.client()).call("demo.echo", [1])).resolves.toBe(1);
});

test("close() during start() leaves no server that answers", async () => {
  const server = new RpcServer(stage.redis, { ns: "t" }).add("demo", echo);
  const starting = server.start();
  const closing = server.close();
  await expect(starting).rejects.toMatchObject({ code: "CLOSED" });
  await closing;
  expect(server.state).toBe("closed");
  expect(await stage.server.command("KEYS", "/api/t/works/*")).toEqual([]);
  const client = new RpcClient(stage.redis, { ns: "t" });
  const opening = client.start();
  await client.close();
  await expect(opening).rejects.toMatchObject({ code: "CLOSED" });
  await expect(client.call("demo.echo", [1])).rejects.toMatchObject({ code: "CLOSED" });
});

test("a client can be paused, resumed and started by its first call", async () => {
  await stage.serve(echo);
  const client = stage.keep(new RpcClient(stage.redis, { ns: "t" }));
  await expect(client.call("demo.echo", [1])).resolves.toBe(1);
  await client.pause();
  expect(client.state).toBe("paused");
  await expect(client.call("demo.echo", [2])).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await client.resume();
  await expect(client.call("demo.echo", [3])).resolves.toBe(3);
});

test("a paused server takes no calls, and takes them when it is resumed", async () => {
  const server = await stage.serve(echo);
  const client = await stage.client();
  await client.call("demo.echo", [1]);
  await server.pause();
  const call = client.call("demo.echo", [2]);
  await eventually(async () => expect(await stage.server.command("LLEN", REQUEST)).toBe(1));
  await server.resume();
  await expect(call).resolves.toBe(2);
});

test("names from outside cost no memory", async () => {
  const client = await stage.client({ timeoutMs: 1 });
  const call = (i: number) => client.call(`service${i % 5_000}.method${i}`).catch(() => {});
  for (let round = 0; round < 50; round++) {
    await Promise.all(Array.from({ length: 100 }, (_, i) => call(round * 100 + i)));
  }
  expect(Object.keys((await client.stats()).methods).length).toBeLessThanOrEqual(1_000);
});

test("calls that timed out at a service without workers are taken out of its list", async () => {
  const client = await stage.client({ timeoutMs: 30 });
  const calls = Array.from({ length: 200 }, () => client.call("demo.echo", [1]));
  await Promise.allSettled(calls);
  await eventually(async () => expect(await stage.server.command("EXISTS", REQUEST)).toBe(0));
});

test("a request list never expires, because calls of other programs may wait in it", async () => {
  const foreign = '{"id":"py","version":"2","method":"echo","params":[]}';
  const client = await stage.client();
  await client.notify("demo.echo", [1]);
  await stage.server.command("LPUSH", REQUEST, foreign);
  await client.notify("demo.echo", [2]);
  await eventually(async () => {
    expect(await stage.server.command("ZSCORE", INDEX, REQUEST)).not.toBeNull();
  });
  expect(await stage.server.command("TTL", REQUEST)).toBe(-1);
});

test("outdated calls of a client that was killed are swept, those of other programs are not", async () => {
  const outdated = (i: number) => `{"dl":${Date.now() - 60_000},"id":"old.${i}","version":"2"}`;
  const young = `{"dl":${Date.now() + 600_000},"id":"young","version":"2"}`;
  const foreign = '{"id":"py","version":"2","method":"echo","params":[]}';
  const texts = [...Array.from({ length: 700 }, (_, i) => outdated(i)), foreign, young];
  await stage.server.command("LPUSH", REQUEST, ...texts);
  await stage.server.command("SET", "/api/t/request/wrong", "a string");
  for (const list of [REQUEST, "/api/t/request/gone", "/api/t/request/wrong"]) {
    await stage.server.command("ZADD", INDEX, "1", list);
  }
  const dialect = new JsonRpcDialect("t");
  const sweeper = new RequestSweeper(stage.redis, dialect, { now: () => Date.now() });
  await sweeper.sweep(Date.now());
  expect(await stage.server.command("LLEN", REQUEST)).toBe(202); // 500 of them at once
  await sweeper.note(new Map([["/api/t/request/busy", 10]]));
  expect(await stage.server.command("LRANGE", REQUEST, "0", "-1")).toEqual([young, foreign]);
  expect(await stage.server.command("ZRANGE", INDEX, "0", "-1")).toEqual(["/api/t/request/busy"]);
});

test("many calls may share one signal", async () => {
  await stage.serve({
    ...echo,
    wait: (_: unknown, { signal }: { signal: AbortSignal }) =>
      new Promise((_, no) => signal.addEventListener("abort", () => no(signal.reason))),
  });
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => warnings.push(warning);
  process.on("warning", onWarning);
  const client = await stage.client();
  const abort = new AbortController();
  const calls = Array.from({ length: 50 }, () =>
    client.call("demo.wait", [], { signal: abort.signal }),
  );
  const settled = Promise.allSettled(calls);
  await client.call("demo.echo", [1], { signal: abort.signal });
  abort.abort();
  for (const outcome of await settled) {
    expect(outcome).toMatchObject({ status: "rejected", reason: { code: "CANCELLED" } });
  }
  process.off("warning", onWarning);
  expect(warnings).toEqual([]);
});

test("a client whose Redis cannot be reached fails to start and leaves nothing", async () => {
  const server = await startRedis();
  const redis = await connect(server.url, { offlineWaitMs: 100 });
  await server.kill9();
  await expect(createClient(redis)).rejects.toMatchObject({ code: "NOT_CONNECTED" });
  await redis.close();
  await server.close();
});

test("calls that timed out in the list of a busy worker are left to it", async () => {
  const ends: (() => void)[] = [];
  const wait = () => new Promise<void>((resolve) => ends.push(resolve));
  const server = await stage.serve({ wait }, { concurrency: 1 });
  const client = await stage.client();
  const running = client.call("demo.wait");
  await eventually(() => expect(ends).toHaveLength(1));
  // Long enough to be in the list by then: a call that times out while it is being pushed is withdrawn.
  const late = Array.from({ length: 5 }, () => client.call("demo.wait", [], { timeoutMs: 1_000 }));
  for (const outcome of await Promise.allSettled(late)) {
    expect(outcome).toMatchObject({ reason: { code: "DEADLINE_EXCEEDED" } });
  }
  // Each withdrawal would be a script of its own: thousands of them, when a busy worker is slow.
  await client.discover();
  expect(await stage.server.command("LLEN", REQUEST)).toBe(5);
  ends[0]?.();
  await running;
  await eventually(() => expect(server.stats().expired).toBe(5));
});
