import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { type CallContext, type CallOptions, createClient } from "../src/index.ts";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();
const echo = { echo: ([value]: unknown[]) => value };

test.each([
  { timeoutMs: Number.POSITIVE_INFINITY },
  { timeoutMs: Number.NaN },
  { timeoutMs: 0 },
  { timeoutMs: -1 },
  { timeoutMs: 1e21 },
  { timeoutMs: "5" },
  { signal: {} },
  { idempotent: 1 },
  { whenDown: "wait" },
  { onProgress: 7 },
  { metadata: { a: 1 } },
  { metadata: [] },
  { timeout: 5 },
])("a call refuses %j and sends nothing", async (options) => {
  const client = await stage.client();
  const refused = expect.objectContaining({ code: "INVALID_OPTION" });
  await expect(client.call("demo.echo", [], options as CallOptions)).rejects.toEqual(refused);
  await expect(client.submit("demo.echo", [], options as never)).rejects.toEqual(refused);
  expect(() => client.stream("demo.echo", [], options as never)).toThrow(refused);
  expect(await stage.server.command("DBSIZE")).toBe(0);
});

test.each([[undefined], [null], [5], ["text"], [() => 1], [{ toJSON: () => 5 }], [1n]])(
  "params %s are refused by the caller",
  async (params) => {
    const client = await stage.client();
    const given = params === undefined ? { toJSON: () => undefined } : params;
    await expect(client.call("demo.echo", given)).rejects.toMatchObject({ code: "INVALID_PARAMS" });
    await expect(client.notify("demo.echo", given)).rejects.toMatchObject({
      code: "INVALID_PARAMS",
    });
    expect(await stage.server.command("DBSIZE")).toBe(0);
  },
);

test("a namespace with quotes works", async () => {
  const ns = 'a"b\\c';
  await stage.serve(echo, { ns });
  const client = await stage.client({ ns });
  await client.call("demo.echo", [1]);
  await client.discover();
  await expect(client.call("demo.echo", [2])).resolves.toBe(2);
  await expect(all(client.stream("demo.echo", [3]))).resolves.toEqual([3]);
});

test.each([5, [], () => {}])("a call refuses %s in place of options", async (options) => {
  const client = await stage.client();
  const refused = expect.objectContaining({ code: "INVALID_ARGUMENT" });
  await expect(client.call("demo.echo", [], options as never)).rejects.toEqual(refused);
  await expect(client.submit("demo.echo", [], options as never)).rejects.toEqual(refused);
  expect(() => client.stream("demo.echo", [], options as never)).toThrow(refused);
});

test("null in place of options is none", async () => {
  await stage.serve(echo);
  const client = await stage.client();
  await expect(client.call("demo.echo", [1], null as never)).resolves.toBe(1);
  await expect(all(client.stream("demo.echo", [1], null as never))).resolves.toEqual([1]);
  await expect(client.submit("demo.echo", [1], null as never)).resolves.toContain("demo.echo/");
});

test("whenDown fails notifications, submitted calls and streams at once, too", async () => {
  const client = await stage.client({ whenDown: "fail" });
  const unavailable = { code: "UNAVAILABLE" };
  await expect(client.notify("demo.echo")).rejects.toMatchObject(unavailable);
  await expect(client.submit("demo.echo")).rejects.toMatchObject(unavailable);
  await expect(all(client.stream("demo.echo"))).rejects.toMatchObject(unavailable);
  await stage.serve(echo);
  await eventually(async () => {
    await expect(all(client.stream("demo.echo", [1]))).resolves.toEqual([1]);
  });
});

test("one malformed message of a client does not slow its other calls", async () => {
  await stage.serve(echo, { heartbeatMs: 60_000 }); // its key outlives any pause of the machine
  const client = await stage.client();
  await client.call("demo.echo", [1]);
  await client.discover();
  const head = `{"dl":${Date.now() + 600_000},"id":"x.1","rt":"/api/t/reply/x"`;
  await stage.server.command("LPUSH", "/api/t/request/demo", `${head},"version":"2","method":5}`);
  await eventually(async () => {
    expect(await stage.server.command("LLEN", "/api/t/reply/x")).toBe(1); // where its caller reads
  });
  const before = await pushes();
  await Promise.all(Array.from({ length: 500 }, (_, i) => client.call("demo.echo", [i])));
  expect((await pushes()) - before).toBeLessThan(250); // under documented keys it would be 500
});

async function pushes(): Promise<number> {
  const stats = String(await stage.server.command("INFO", "commandstats"));
  return Number(/cmdstat_lpush:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

test("options and names that an interceptor changed are checked, too", async () => {
  await stage.serve(echo);
  const changed: [object, string][] = [
    [{ options: { timeoutMs: Number.NaN } }, "INVALID_OPTION"],
    [{ options: { metadata: { a: 1 } } }, "INVALID_OPTION"],
    [{ service: "a:b" }, "INVALID_NAME"],
    [{ method: 5 }, "INVALID_NAME"],
    [{ method: "" }, "INVALID_NAME"],
  ];
  for (const [change, code] of changed) {
    const client = await stage.client();
    client.use((request, next) => next({ ...request, ...change }));
    await expect(client.call("demo.echo", [1])).rejects.toMatchObject({ code });
    await expect(client.submit("demo.echo", [1])).rejects.toMatchObject({ code });
    await expect(all(client.stream("demo.echo", [1]))).rejects.toMatchObject({ code });
    expect((await client.stats()).inFlight).toBe(0);
  }
});

test.each([5, undefined, null, "", "x", ".a", "a."])("the target %j is refused", async (target) => {
  for (const wire of [{}, { dialect: "kw" as const, prefix: "p" }]) {
    if (wire.dialect === "kw" && typeof target === "string" && target !== "") continue;
    const client = await stage.client(wire);
    const refused = { code: "INVALID_NAME" };
    await expect(client.call(target as string)).rejects.toMatchObject(refused);
    await expect(client.submit(target as string)).rejects.toMatchObject(refused);
  }
});

test("a progress listener that throws is reported, and its call and others are answered", async () => {
  await stage.serve({
    ...echo,
    work: async (_: unknown, context: CallContext) => {
      for (let i = 0; i < 3; i++) context.progress(i / 3);
      return "done";
    },
  });
  for (const replies of ["auto", "keys"] as const) {
    const client = await stage.client({ replies });
    const reported: unknown[] = [];
    client.on("error", (error) => reported.push(error));
    const onProgress = () => {
      throw new Error("the listener");
    };
    const calls = [client.call("demo.work", [], { onProgress }), client.call("demo.echo", [1])];
    await expect(Promise.all(calls)).resolves.toEqual(["done", 1]);
    await eventually(() => expect(reported).toHaveLength(3));
  }
});

/**
 * Waits until Redis has refused two more pushes. A push that is under way when its signal aborts may still be
 * taken; the one after it no longer contains the cancelled call.
 */
async function refusedPushes(): Promise<void> {
  const before = await countRefusedPushes();
  await eventually(async () => expect(await countRefusedPushes()).toBeGreaterThan(before + 1));
}

async function countRefusedPushes(): Promise<number> {
  const stats = String(await stage.server.command("INFO", "commandstats"));
  return Number(/cmdstat_lpush:.*rejected_calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

test.each(["submit", "notify"] as const)(
  "a signal cancels %s() until its call is sent",
  async (verb) => {
    const client = await stage.client();
    const waiting = new AbortController();
    const refused = new AbortController();
    const cancelled = { code: "CANCELLED" };
    const before = client[verb]("demo.run", ["before"], { signal: AbortSignal.abort() });
    await expect(before).rejects.toMatchObject(cancelled);
    // No node serves the session yet.
    const session = client.session("g", "c1");
    const waits = session[verb]("demo.run", ["waiting"], { signal: waiting.signal });
    const other = await createClient(stage.redis, { ns: "t" });
    const closed = other.session("g", "c2")[verb]("demo.run", ["closed"]);
    await stage.server.command("CONFIG", "SET", "min-replicas-to-write", "1");
    const push = client[verb]("demo.run", ["refused"], { signal: refused.signal });
    const kept = client[verb]("demo.run", ["kept"], { signal: new AbortController().signal });
    const outcomes = Promise.allSettled([waits, push, closed]);
    await refusedPushes();
    waiting.abort();
    refused.abort();
    await other.close();
    expect(await outcomes).toMatchObject([
      { reason: cancelled },
      { reason: cancelled },
      { reason: { code: "CLOSED" } },
    ]);
    await refusedPushes();
    await stage.server.command("CONFIG", "SET", "min-replicas-to-write", "0");
    await kept;
    const runs: unknown[] = [];
    const run = ([name]: [string]) => void runs.push(name);
    await stage.serve({ run }, { node: "n1", group: "g" });
    for (const name of ["c1", "c2"]) await client.session("g", name).call("demo.run", [name]);
    // A worker that waits would run it as soon as Redis takes writes again. One whose pop is refused would not.
    await eventually(async () => {
      expect(await stage.server.command("CLIENT", "LIST")).toMatch(
        /name=\S*rpc-calls\S* .* flags=b /,
      );
    });
    await stage.server.command("CONFIG", "SET", "min-replicas-to-write", "1");
    const served = new AbortController();
    const again = client[verb]("demo.run", ["refused again"], { signal: served.signal });
    const beside = client[verb]("demo.run", ["beside"]);
    const refusal = expect(again).rejects.toMatchObject(cancelled);
    await refusedPushes();
    served.abort();
    await refusal;
    await refusedPushes();
    await stage.server.command("CONFIG", "SET", "min-replicas-to-write", "0");
    await beside;
    await client.call("demo.run", ["last"]);
    expect(runs.sort()).toEqual(["beside", "c1", "c2", "kept", "last"]);
  },
);
