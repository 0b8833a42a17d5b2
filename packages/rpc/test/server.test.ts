import { getEventListeners } from "node:events";
import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { ApplicationError, type RpcClient, RpcServer } from "../src/index.ts";
import { dead, JsonRpcKeys } from "../src/internal.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();
const keys = new JsonRpcKeys("t");
const REQUEST = keys.request("demo");

/** What a plain client gets for a message it pushes. */
async function ask(id: string, message: string): Promise<Record<string, never>> {
  await stage.server.command("LPUSH", REQUEST, message);
  const reply = (await stage.server.command("BRPOP", keys.response("", id), "10")) as
    | string[]
    | null;
  return JSON.parse(reply?.[1] ?? "null");
}

async function expectAlive(client?: RpcClient): Promise<void> {
  const caller = client ?? (await stage.client());
  await expect(caller.call("demo.echo", ["still here"])).resolves.toBe("still here");
}

async function commands(): Promise<number> {
  const stats = String(await stage.server.command("INFO", "stats"));
  return Number(/total_commands_processed:(\d+)/.exec(stats)?.[1]);
}

const echo = { echo: ([value]: unknown[]) => value };

test("a message that is not JSON, or no object, or has no id is set aside and the worker goes on", async () => {
  const worker = await stage.serve(echo);
  const bad = [
    "not json",
    "[1,2]",
    "42",
    "null",
    '{"method":"echo"}',
    '{"id":{},"method":"echo"}',
    "{",
  ];
  await stage.server.command("LPUSH", REQUEST, ...bad);
  await eventually(async () => {
    const kept = (await stage.server.command("LRANGE", dead(REQUEST), "0", "-1")) as string[];
    expect(kept.map((text) => JSON.parse(text).raw).sort()).toEqual([...bad].sort());
  });
  expect(worker.stats().setAside).toBe(bad.length);
  await expectAlive();
});

test("a message of the wrong shape is answered with INVALID_REQUEST if it has an id", async () => {
  await stage.serve(echo);
  for (const [id, rest] of [
    ["a", ""],
    ["b", ',"method":7'],
    ["c", ',"method":"echo","params":"text"'],
    ["d", ',"method":"echo","params":null'],
  ]) {
    const answer = await ask(String(id), `{"id":"${id}"${rest}}`);
    expect(answer).toMatchObject({ id, error: { code: -32600 } });
  }
  await expectAlive();
});

test("an unknown method is answered with METHOD_NOT_FOUND, also the name of an inherited member", async () => {
  await stage.serve(echo);
  for (const method of ["nope", "constructor", "__proto__", "toString"]) {
    const answer = await ask(method, JSON.stringify({ id: method, method, params: [] }));
    expect(answer).toMatchObject({ id: method, error: { code: -32601 } });
  }
});

test("a result that cannot be written as JSON is an INVALID_RESULT for its caller", async () => {
  await stage.serve({
    ...echo,
    cyclic: () => {
      const ring: { self?: unknown } = {};
      ring.self = ring;
      return ring;
    },
    big: () => 12n,
    nothing: () => undefined,
  });
  const client = await stage.client();
  await expect(client.call("demo.cyclic")).rejects.toMatchObject({ code: "INVALID_RESULT" });
  await expect(client.call("demo.big")).rejects.toMatchObject({ code: "INVALID_RESULT" });
  await expect(client.call("demo.nothing")).resolves.toBeNull();
  await expectAlive(client);
});

test("answers and calls larger than maxMessageBytes are refused with both sizes", async () => {
  await stage.serve({ ...echo, huge: () => "ü".repeat(600) }, { maxMessageBytes: 1_000 });
  const client = await stage.client({ maxMessageBytes: 1_000 });
  await expect(client.call("demo.huge")).rejects.toMatchObject({
    code: "MESSAGE_TOO_LARGE",
    message: "the result has 1202 bytes, more than the 1000 allowed",
  });
  await expect(client.call("demo.echo", ["x".repeat(1_000)])).rejects.toMatchObject({
    code: "MESSAGE_TOO_LARGE",
  });
  await expectAlive(client);
});

test("a key that is no list is reported, and the other services are still served", async () => {
  await stage.server.command("SET", keys.request("broken"), "a string");
  const server = new RpcServer(stage.redis, { ns: "t" }).add("broken", echo).add("demo", echo);
  stage.keep(await server.start());
  const client = await stage.client();
  await expectAlive(client);
  await expect(client.call("broken.echo", [1])).rejects.toMatchObject({ code: "WRONG_KEY_TYPE" });
  await stage.server.command("DEL", keys.request("broken"));
  await eventually(async () => {
    await expect(client.call("broken.echo", [1], { timeoutMs: 500 })).resolves.toBe(1);
  });
});

test("a response key that is no list fails that call alone", async () => {
  await stage.serve({
    ...echo,
    spoil: async (_params, { id }) => {
      await stage.server.command("SET", keys.response("", id), "a string");
      return 1;
    },
  });
  const client = await stage.client({ replies: "keys" });
  await expect(client.call("demo.spoil")).rejects.toMatchObject({
    code: "WRONG_KEY_TYPE",
  });
  await expectAlive(client);
});

test("a description that is no hash refuses the start, with the key's name", async () => {
  await stage.server.command("SET", keys.description("demo"), "a string");
  const server = new RpcServer(stage.redis, { ns: "t" }).add("demo", echo);
  await expect(server.start()).rejects.toMatchObject({
    code: "WRONG_KEY_TYPE",
    details: { key: keys.description("demo") },
  });
  await server.close();
});

test("an application error keeps its own number, message and data", async () => {
  await stage.serve({
    refuse: () => {
      throw new ApplicationError(4_711, "sold out", { left: 0 });
    },
  });
  const client = await stage.client();
  await expect(client.call("demo.refuse")).rejects.toMatchObject({
    code: "APPLICATION_ERROR",
    rpcCode: 4_711,
    message: "sold out",
    data: { left: 0 },
  });
});

test("an error whose data cannot be written as JSON arrives without it, and the calls beside it are answered", async () => {
  const worker = await stage.serve({
    ...echo,
    now: () => {
      throw new ApplicationError(7, "now", { big: 1n });
    },
    later: async () => {
      throw new ApplicationError(7, "later", { big: 1n });
    },
  });
  const client = await stage.client();
  const outcomes = await client.batch(
    ["demo.now", "demo.later", "demo.echo"].map((target) => ({ target, params: [1] })),
  );
  expect(outcomes).toMatchObject([
    { reason: { rpcCode: 7, message: "now", data: undefined } },
    { reason: { rpcCode: 7, message: "later", data: undefined } },
    { value: 1 },
  ]);
  expect(worker.stats().running).toBe(0);
});

test("calls that share an id take a slot each, and one cancellation ends them all", async () => {
  const worker = await stage.serve(
    {
      wait: (_params, { signal }) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    },
    { concurrency: 3 },
  );
  const call = JSON.stringify({ id: "same", version: "2", method: "wait", params: [] });
  await stage.server.command("LPUSH", REQUEST, call, call, call, call);
  await eventually(() => expect(worker.stats().running).toBe(3));
  expect(await stage.server.command("LLEN", REQUEST)).toBe(1);
  const client = await stage.client();
  await eventually(async () => {
    await client.cancel("demo.wait/same");
    expect(await stage.server.command("LLEN", keys.response("", "same"))).toBe(4);
  });
  expect(worker.stats().running).toBe(0);
});

test("handlers that block share their worker: each answer leaves soon, and calls that became outdated meanwhile are not run", async () => {
  let run = 0;
  await stage.serve({
    block: () => {
      run += 1;
      for (const until = performance.now() + 40; performance.now() < until; );
      return run;
    },
  });
  const client = await stage.client();
  const calls = Array.from({ length: 50 }, () =>
    client.call("demo.block", [], { timeoutMs: 500 }).catch((error) => error.code),
  );
  await Promise.race(calls);
  expect(run).toBeLessThan(50);
  expect((await Promise.all(calls)).at(-1)).toBe("DEADLINE_EXCEEDED");
  expect(run).toBeLessThan(50); // to run them all takes four times the deadline
});

test("outdated calls are refused without being parsed, ten thousand after an outage", async () => {
  const waiting = 10_000;
  const client = await stage.client();
  const past = Date.now() - 60_000;
  const replies = keys.reply("elsewhere");
  const old = (_: unknown, i: number) =>
    `{"dl":${past},"id":"c.${i}","rt":"${replies}","version":"2","method":"echo","params":[${i}]}`;
  await stage.server.command("LPUSH", REQUEST, ...Array.from({ length: waiting }, old));
  const before = await commands();
  const parsed: unknown[] = [];
  const worker = await stage.serve({ echo: (params) => parsed.push(params) });
  await eventually(() => expect(worker.stats().expired).toBe(waiting), { withinMs: 15_000 });
  expect(worker.stats().parsed).toBe(0);
  expect(parsed).toEqual([]);
  await eventually(async () => {
    const elements = (await stage.server.command("LRANGE", replies, "0", "-1")) as string[];
    const responses = elements.flatMap((element) => JSON.parse(element));
    expect(responses).toHaveLength(waiting);
    expect(new Set(responses.map(({ error }) => error.code))).toEqual(new Set([-32001]));
  });
  expect((await commands()) - before).toBeLessThan(waiting / 5); // they are popped and refused by the hundred
  await expect(client.call("demo.echo", [1])).resolves.toBe(1);
});

test("an outdated call is answered with DEADLINE_EXCEEDED, an outdated notification is not", async () => {
  const worker = await stage.serve(echo);
  const past = Date.now() - 60_000;
  const params = `"method":"echo","params":[${" ".repeat(10)}`; // cut off: parsing would fail
  const answer = await ask("old", `{"dl":${past},"id":"old",${params}`);
  expect(answer).toMatchObject({ id: "old", error: { code: -32001 } });
  await stage.server.command(
    "LPUSH",
    REQUEST,
    `{"dl":${past},"id":"n","notification":true,${params}`,
  );
  await eventually(() => expect(worker.stats().expired).toBe(2));
  expect(worker.stats().parsed).toBe(0);
  expect(await stage.server.command("EXISTS", keys.response("", "n"))).toBe(0);
});

test("middleware sees each call before and after its handler, and what it throws", async () => {
  const seen: string[] = [];
  const server = new RpcServer(stage.redis, { ns: "t", exposeErrors: true })
    .use(async (context, next) => {
      seen.push(`before ${context.method}`);
      context.meta.user = "ann";
      try {
        return `<${await next()}>`;
      } catch (error) {
        seen.push(`error ${(error as Error).message}`);
        throw error;
      } finally {
        seen.push("after");
      }
    })
    .add("demo", {
      who: (_params, { meta }) => meta.user,
      fail: () => {
        throw new Error("no");
      },
    });
  stage.keep(await server.start());
  const client = await stage.client();
  await expect(client.call("demo.who")).resolves.toBe("<ann>");
  await expect(client.call("demo.fail")).rejects.toThrow("no");
  expect(seen).toEqual(["before who", "after", "before fail", "error no", "after"]);
});

test("a nested call inherits what is left of the deadline, and its cancellation", async () => {
  const aborted: string[] = [];
  await stage.serve({
    outer: (_params, context) => context.call("demo.inner", [], { timeoutMs: 60_000 }),
    inner: async (_params, context) => {
      if (context.remainingMs > 10_000) return "too long";
      await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
      aborted.push(context.method);
      throw context.signal.reason;
    },
  });
  const client = await stage.client();
  await expect(client.call("demo.outer", [], { timeoutMs: 2_000 })).rejects.toMatchObject({
    code: "DEADLINE_EXCEEDED",
  });
  await eventually(() => expect(aborted).toEqual(["inner"]));
});

test("closing lets running calls end, then leaves no key of the worker behind", async () => {
  let release: (value: string) => void = () => {};
  const worker = await stage.serve({
    wait: () =>
      new Promise((resolve) => {
        release = resolve;
      }),
  });
  const client = await stage.client();
  const call = client.call("demo.wait");
  await eventually(() => expect(worker.stats().running).toBe(1));
  const closing = worker.close();
  release("done");
  await closing;
  await expect(call).resolves.toBe("done");
  const left = (await stage.server.command("KEYS", "*works*")) as string[];
  expect(left.filter((key) => !key.includes("index"))).toEqual([]);
  expect(await stage.server.command("KEYS", "*ctl*")).toEqual([]);
});

test("a call still running when close() gives up is told so", async () => {
  const worker = await stage.serve(
    {
      wait: (_params, { signal }) =>
        new Promise((_, reject) =>
          signal.addEventListener("abort", () => reject(new Error("interrupted"))),
        ),
    },
    { closeWithinMs: 50 },
  );
  const client = await stage.client();
  const call = client.call("demo.wait");
  call.catch(() => {});
  await eventually(() => expect(worker.stats().running).toBe(1));
  await worker.close();
  await expect(call).rejects.toMatchObject({ code: "SERVER_CLOSING" });
});

test("with plain pops (before Redis 7) everything works the same", async () => {
  await stage.serve(echo, { plainPop: true });
  const client = await stage.client({ plainPop: true });
  const answers = await Promise.all(
    Array.from({ length: 500 }, (_, i) => client.call("demo.echo", [i])),
  );
  expect(answers).toEqual(Array.from({ length: 500 }, (_, i) => i));
});

test("nobody makes a worker push into a key of his choice", async () => {
  await stage.serve(echo);
  const call = { id: "x", rt: "/api/other/secret", version: "2", method: "echo", params: [1] };
  expect(await ask("x", JSON.stringify(call))).toEqual({ id: "x", result: 1 });
  expect(await stage.server.command("EXISTS", "/api/other/secret")).toBe(0);
});

test("params that cannot be written as JSON are an INVALID_PARAMS at the caller", async () => {
  const ring: { self?: unknown } = {};
  ring.self = ring;
  const client = await stage.client();
  await expect(client.call("demo.echo", [ring])).rejects.toMatchObject({ code: "INVALID_PARAMS" });
  await expect(client.call("demo.echo", [1n])).rejects.toMatchObject({ code: "INVALID_PARAMS" });
  const { signal } = new AbortController();
  await expect(client.call("demo.echo", [1n], { signal })).rejects.toMatchObject({
    code: "INVALID_PARAMS",
  });
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

test("answers that are ready together come as one element of a reply list, those under a key of their own as they are", async () => {
  await stage.serve(echo);
  const list = keys.reply("me");
  const ids = Array.from({ length: 50 }, (_, i) => `a${i}`);
  const call = (id: string, more: object) =>
    JSON.stringify({ id, version: "2", method: "echo", params: [id], ...more });
  await stage.server.command(
    "LPUSH",
    REQUEST,
    ...ids.map((id) => call(id, { rt: list })),
    ...["d", "e"].map((id) => call(id, {})),
  );
  await eventually(async () => {
    const elements = (await stage.server.command("LRANGE", list, "0", "-1")) as string[];
    expect(elements.reverse().flatMap((element) => JSON.parse(element))).toEqual(
      ids.map((id) => ({ id, result: id })),
    );
  });
  expect(await stage.server.command("LLEN", list)).toBeLessThan(ids.length);
  await eventually(async () => {
    expect(Number(await stage.server.command("TTL", list))).toBeGreaterThan(0);
  });
  for (const id of ["d", "e"]) {
    const answer = await stage.server.command("BRPOP", keys.response("", id), "10");
    expect(JSON.parse((answer as string[])[1] ?? "")).toEqual({ id, result: id });
  }
});
