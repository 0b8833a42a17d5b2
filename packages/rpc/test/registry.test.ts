import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { RpcServer } from "../src/index.ts";
import { Directory } from "../src/registry/directory.ts";
import { JsonRpcDialect } from "../src/wire/jsonrpc-dialect.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();
const echo = { echo: ([value]: unknown[]) => value };

async function scans(): Promise<number> {
  const stats = String(await stage.server.command("INFO", "commandstats"));
  return Number(/cmdstat_scan:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

test("the registry is written again after Redis lost its data", async () => {
  await stage.serve(echo, { heartbeatMs: 50 });
  const client = await stage.client();
  await stage.server.command("FLUSHALL");
  await eventually(async () => {
    const [service] = await client.discover();
    expect(service).toMatchObject({ name: "demo", workers: [{}] });
    expect(Object.keys(service?.methods ?? {})).toEqual(["echo"]);
  });
  expect(await stage.server.command("SMEMBERS", "/api/ns")).toEqual(["t"]);
});

test("a deploy without a method removes it, unless another live worker serves it", async () => {
  const methods = async () => Object.keys((await client.discover())[0]?.methods ?? {}).sort();
  const client = await stage.client();
  const old = await stage.serve({ ...echo, gone: () => 1 }, { node: "old" });
  expect(await methods()).toEqual(["echo", "gone"]);
  await stage.serve(echo, { node: "new" });
  expect(await methods()).toEqual(["echo", "gone"]); // the old worker still serves it
  await old.close();
  await stage.serve(echo, { node: "newer" });
  expect(await methods()).toEqual(["echo"]);
});

test("the methods of another program's live worker stay described", async () => {
  const methods = async () => Object.keys((await client.discover())[0]?.methods ?? {}).sort();
  const client = await stage.client();
  await stage.server.command("HSET", "/api/t/desc/demo", "theirs", "a sentence about it");
  await stage.server.command("SET", "/api/t/works/demo:py", "1");
  await stage.serve(echo, { node: "n1" });
  expect(await methods()).toEqual(["echo", "theirs"]);
  await stage.server.command("DEL", "/api/t/works/demo:py");
  await stage.serve(echo, { node: "n2" });
  expect(await methods()).toEqual(["echo"]);
});

test("reply lists are used only if every worker supports them", async () => {
  const directory = new Directory(stage.redis, new JsonRpcDialect("t"));
  const add = async (node: string, caps: string[]) => {
    await stage.server.command("ZADD", "/api/t/index/works/demo", Date.now() + 60_000, node);
    await stage.server.command("SET", `/api/t/works/demo:${node}`, JSON.stringify({ caps }));
    await directory.workers("demo");
  };
  expect(directory.allUseReplyLists("demo")).toBe(false);
  await add("n1", ["rt", "st"]);
  expect(directory.allUseReplyLists("demo")).toBe(true);
  await add("n2", []); // an older version
  expect(directory.allUseReplyLists("demo")).toBe(false);
});

test("calls do not scan the keyspace, and discovery does so once for all services", async () => {
  const server = new RpcServer(stage.redis, { ns: "t" });
  for (let i = 0; i < 10; i++) server.add(`s${i}`, echo);
  stage.keep(await server.start());
  const client = await stage.client();
  const before = await scans();
  for (let i = 0; i < 10; i++) await client.call(`s${i}.echo`, [i]);
  expect(await scans()).toBe(before);
  for (let i = 0; i < 5; i++) expect(await client.discover()).toHaveLength(10);
  expect((await scans()) - before).toBeLessThanOrEqual(2);
});

test("queue lengths: waiting, of sessions, in flight, dead", async () => {
  const ends: (() => void)[] = [];
  const wait = () => new Promise<void>((resolve) => ends.push(resolve));
  await stage.serve({ wait }, { atLeastOnce: true, concurrency: 2, group: "g", node: "n1" });
  const client = await stage.client();
  const calls = Array.from({ length: 5 }, () => client.call("demo.wait"));
  await eventually(() => expect(ends).toHaveLength(2));
  const session = client.session("g", "c").call("demo.wait");
  await stage.server.command("LPUSH", "/api/t/request/demo:dead", "{}");
  await eventually(async () => {
    const [service] = await client.discover();
    expect(service).toMatchObject({ waiting: 3, inFlight: 2, sessionWaiting: 1, dead: 1 });
  });
  const { connections } = await client.stats();
  expect(connections?.callers).toBeGreaterThanOrEqual(1);
  expect(connections?.workers).toBeGreaterThanOrEqual(1);
  let over = false;
  const settled = Promise.all([...calls, session]).finally(() => {
    over = true;
  });
  await eventually(async () => {
    for (const end of ends.splice(0)) end();
    expect(over).toBe(true);
  });
  await settled;
});

test("the kw wire has a registry and statistics too", async () => {
  const kw = { dialect: "kw", prefix: "p" } as const;
  await stage.serve(
    { add: ({ a, b }: { a: number; b: number }) => a + b },
    { ...kw, heartbeatMs: 50 },
  );
  const client = await stage.client(kw);
  await expect(client.call("add", { a: 1, b: 2 })).resolves.toBe(3);
  await eventually(async () => {
    const { services } = await client.stats();
    expect(services).toMatchObject([{ name: "demo", waiting: 0, methods: { add: {} } }]);
    expect(services[0]?.workers[0]?.methods?.add).toMatchObject({ calls: 1 });
  });
  await stage.server.command("RPUSH", "p:other:calls", "{}");
});

test("statistics have rates", async () => {
  await stage.serve(echo, { heartbeatMs: 50 });
  const client = await stage.client();
  for (let i = 0; i < 20; i++) await client.call("demo.echo", [i]);
  await eventually(async () => {
    expect((await client.stats()).methods["demo.echo"]?.perSecond).toBeGreaterThan(0);
  });
});

test("a service is added once, before the start", async () => {
  const invalid = expect.objectContaining({ code: "INVALID_ARGUMENT" });
  const server = new RpcServer(stage.redis, { ns: "t" }).add("demo", echo);
  expect(() => server.add("demo", { other: () => 1 })).toThrow(invalid);
  expect(() => server.add("not a name", echo)).toThrow(
    expect.objectContaining({ code: "INVALID_NAME" }),
  );
  stage.keep(await server.start());
  expect(() => server.add("late", echo)).toThrow(invalid);
  await expect((await stage.client()).call("demo.echo", [1])).resolves.toBe(1);
});

test("whatever another program writes about its worker, discovery shows only what it can be", async () => {
  await stage.server.command("SADD", "/api/t/services", "py");
  const told = {
    ...{ caps: 7, ctl: "/api/other/list", group: [], version: 3, host: {}, pid: "12" },
    ...{ since: null, running: "x", methods: { add: 5, sub: { calls: 2, errors: "no" } } },
  };
  await stage.server.command("SET", "/api/t/works/py:odd", JSON.stringify(told));
  for (const [node, value] of [
    ["number", "1"],
    ["list", "[1]"],
    ["string", "alive"],
    ["null", "null"],
  ] as const) {
    await stage.server.command("SET", `/api/t/works/py:${node}`, value);
  }
  const [service] = await (await stage.client()).discover();
  const workers = Object.fromEntries(service?.workers.map((each) => [each.node, each]) ?? []);
  expect(Object.keys(workers).sort()).toEqual(["list", "null", "number", "odd", "string"]);
  const zero = { calls: 0, errors: 0, meanMs: 0, p50Ms: 0, p99Ms: 0, perSecond: 0 };
  expect(workers.odd).toEqual({
    service: "py",
    node: "odd",
    caps: [],
    methods: { add: zero, sub: { ...zero, calls: 2 } },
  });
});
