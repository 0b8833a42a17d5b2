import { connect } from "@ropeway/core";
import { deferred } from "@ropeway/core/internal";
import { eventually, spawnScript, startProxy } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { type CallContext, createClient, RpcServer, SessionLostError } from "../src/index.ts";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();
const NODE = new URL("./node.fixture.ts", import.meta.url);

const who = {
  whoami: (_params: unknown, { node, session }: CallContext) => ({ node, ...session }),
};
const serveNode = (name: string, handlers: object = who) =>
  stage.serve(handlers as never, { node: name, group: "g", heartbeatMs: 100 });

test("a session call that has started is not run again after its node lost the session", async () => {
  await using proxy = await startProxy(stage.server);
  const far = stage.keep(await connect(proxy.url, { heartbeatMs: 100, deadAfterMs: 300 }));
  let runs = 0;
  let aborted = false;
  const options = { ns: "t", node: "n1", group: "g", heartbeatMs: 100 };
  const work = async (_params: unknown, { signal }: CallContext) => {
    runs += 1;
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    aborted = true;
    signal.throwIfAborted();
  };
  stage.keep(await new RpcServer(far, options).add("demo", { work }).start());
  const session = (await stage.client({ timeoutMs: 8_000 })).session("g", "c1");
  const call = session.call("demo.work");
  const outcome = call.then(
    () => undefined,
    (error) => error,
  );
  await eventually(() => expect(runs).toBe(1));
  await serveNode("n2", {
    work: () => {
      runs += 1;
    },
  });
  proxy.refuse();
  proxy.cut();
  await new Promise((resolve) => setTimeout(resolve, 600)); // longer than the node's life
  await proxy.heal();
  const error = await outcome;
  expect(error).toBeInstanceOf(SessionLostError);
  expect(error).toMatchObject({ code: "SESSION_LOST", details: { begun: true } });
  expect(aborted).toBe(true);
  expect(runs).toBe(1);
}, 20_000);

test("the epoch grows for ever: after idling past the session's life, and after Redis lost its data", async () => {
  await stage.serve(who as never, { node: "n1", group: "g" });
  const client = await stage.client();
  const session = client.session("g", "c1");
  const call = async () => (await session.call("demo.whoami")) as { epoch: number; isNew: boolean };
  const first = await call();
  // Both expire after the same time without a call.
  const lived = ["/api/t/sess_map/g:c1", "/api/t/sess_epoch/g:c1"];
  for (const key of lived) expect(await stage.server.command("PTTL", key)).toBeGreaterThan(0);
  expect(await stage.server.command("DEL", ...lived)).toBe(2);
  const second = await call();
  expect(second.epoch).toBeGreaterThan(first.epoch);
  expect(second.isNew).toBe(true);
  await stage.server.command("FLUSHALL");
  const third = await call();
  expect(third.epoch).toBeGreaterThan(second.epoch);
  expect(third.isNew).toBe(true);
  await eventually(async () => expect((await call()).isNew).toBe(false));
});

test.each(["xxn9", "garbage", "h:n1", "g:", "", "g:a:b", "g:n9"])(
  "a session that another program mapped to %j, which is no live node, is mapped again",
  async (value) => {
    await serveNode("n1");
    await stage.server.command("SET", "/api/t/sess_map/g:c1", value);
    const session = (await stage.client({ timeoutMs: 5_000 })).session("g", "c1");
    await expect(session.call("demo.whoami")).resolves.toMatchObject({ node: "n1", isNew: true });
    expect(await stage.server.command("GET", "/api/t/sess_map/g:c1")).toBe("g:n1");
  },
);

test.each(["abc", "inf", "nan", "1e300", "-5", '1,"x":2', "9".repeat(30), ""])(
  "an epoch that another program set to %j is replaced by one that grows",
  async (value) => {
    await serveNode("n1");
    const session = (await stage.client({ timeoutMs: 5_000 })).session("g", "c1");
    const call = async () => (await session.call("demo.whoami")) as { epoch: number };
    const first = await call();
    await stage.server.command("SET", "/api/t/sess_epoch/g:c1", value);
    const second = await call();
    expect(second.epoch).toBeGreaterThan(first.epoch);
    await stage.server.command("SET", "/api/t/sess_epoch/g", value);
    expect(await call()).toMatchObject({ epoch: second.epoch });
    await stage.server.command("DEL", "/api/t/sess_map/g:c1");
    const third = await call();
    expect(third.epoch).toBeGreaterThan(second.epoch);
    expect(third.epoch).toBeLessThan(second.epoch + 3_600_000);
  },
);

test("an epoch is larger than the largest of its group, whatever the clock of Redis says", async () => {
  await serveNode("n1");
  const ahead = Date.now() + 3_600_000; // the clock was set back since
  await stage.server.command("SET", "/api/t/sess_epoch/g", String(ahead));
  const client = await stage.client();
  for (const [i, name] of ["c1", "c2"].entries()) {
    const { epoch } = (await client.session("g", name).call("demo.whoami")) as { epoch: number };
    expect(epoch).toBe(ahead + 1 + i);
  }
});

test("each call prolongs the life of its session", async () => {
  await serveNode("n1");
  const session = (await stage.client()).session("g", "c1");
  await session.call("demo.whoami");
  const lived = ["/api/t/sess_map/g:c1", "/api/t/sess_epoch/g:c1"];
  for (const key of lived) await stage.server.command("PEXPIRE", key, "30000");
  await session.call("demo.whoami");
  for (const key of lived) expect(await stage.server.command("PTTL", key)).toBeGreaterThan(30_000);
});

test.each(["call", "stream"] as const)(
  "a %s whose handler lost another session, or its own, is not run again",
  async (kind) => {
    let runs = 0;
    const waits = deferred<void>();
    const lost = () => {
      runs += 1;
      throw new SessionLostError("other", false); // of a nested call, which had not started
    };
    const own = async ({ signal }: CallContext) => {
      runs += 1;
      waits.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      signal.throwIfAborted();
    };
    await serveNode("n1", {
      callNested: lost,
      async *streamNested() {
        yield lost();
      },
      callOwn: (_: unknown, context: CallContext) => own(context),
      async *streamOwn(_: unknown, context: CallContext) {
        yield await own(context);
      },
    });
    const session = (await stage.client()).session("g", "c1");
    const run = (method: string) =>
      kind === "call" ? session.call(`demo.${method}`) : all(session.stream(`demo.${method}`));
    const begun = { code: "SESSION_LOST", details: { begun: true } };
    await expect(run(`${kind}Nested`)).rejects.toMatchObject(begun);
    expect(runs).toBe(1);
    const outcome = expect(run(`${kind}Own`)).rejects.toMatchObject(begun);
    await waits.promise;
    await stage.server.command("DEL", "/api/t/groups/g:n1"); // the node counts as dead
    await outcome;
    expect(runs).toBe(2);
  },
);

test("a call of an older mapping is refused by a node that has seen a newer one, and sent again", async () => {
  const server = await serveNode("n1");
  const session = (await stage.client()).session("g", "c1");
  const { epoch } = (await session.call("demo.whoami")) as { epoch: number };
  const old = {
    id: "old",
    version: "2",
    method: "whoami",
    params: [],
    ss: { c: "c1", e: epoch - 1 },
  };
  await stage.server.command("LPUSH", "/api/t/sess_req/g:n1/demo", JSON.stringify(old));
  const [, answer] = (await stage.server.command("BRPOP", "/api/t/response/old", "10")) as string[];
  expect(JSON.parse(answer ?? "")).toMatchObject({
    error: { code: -32008, data: { begun: false } },
  });
  expect(server.state).toBe("running");
});

test("a session call that was cancelled, or whose client was closed, is not run when a node appears", async () => {
  const client = await stage.client();
  const abort = new AbortController();
  const session = client.session("g", "c1");
  const cancelled = session.call("demo.run", [], { signal: abort.signal });
  const closed = (await stage.client()).session("g", "c2");
  const other = await createClient(stage.redis, { ns: "t" });
  const dropped = other.session("g", "c3").call("demo.run");
  const settled = Promise.allSettled([cancelled, dropped]);
  await new Promise((resolve) => setTimeout(resolve, 150));
  abort.abort();
  await other.close();
  expect(await settled).toMatchObject([
    { status: "rejected", reason: { code: "CANCELLED" } },
    { status: "rejected", reason: { code: "CLOSED" } },
  ]);
  const runs: unknown[] = [];
  await serveNode("n1", { run: (_: unknown, { session: s }: CallContext) => runs.push(s?.client) });
  await closed.call("demo.run");
  expect(runs).toEqual(["c2"]);
});

test("a session goes to a node that serves the service", async () => {
  const options = { ns: "t", group: "g" };
  for (const [node, service] of [
    ["n1", "other"],
    ["n2", "demo"],
  ] as const) {
    const server = new RpcServer(stage.redis, { ...options, node }).add(service, who);
    stage.keep(await server.start());
  }
  const client = await stage.client();
  for (let i = 0; i < 10; i++) {
    const session = client.session("g", `c${i}`);
    await expect(session.call("demo.whoami")).resolves.toMatchObject({ node: "n2" });
    await expect(session.call("other.whoami")).resolves.toMatchObject({ node: "n1" });
  }
});

test("a call that waits for its node stays there while the session calls a service of another node", async () => {
  const release = deferred<void>();
  const moved: string[] = [];
  const work = async ([wait]: [boolean], { node }: CallContext) => {
    if (wait) await release.promise;
    return node;
  };
  for (const [node, service] of [
    ["n1", "other"],
    ["n2", "demo"],
  ] as const) {
    const options = { ns: "t", group: "g", node, concurrency: 1 };
    stage.keep(await new RpcServer(stage.redis, options).add(service, { work }).start());
  }
  const session = (await stage.client({ timeoutMs: 8_000 })).session("g", "c1");
  const running = session.call("demo.work", [true]);
  const list = "/api/t/sess_req/g:n2/demo";
  await eventually(async () => expect(await stage.server.command("EXISTS", list)).toBe(0));
  const waiting = session.call("demo.work", [false]);
  await eventually(async () => expect(await stage.server.command("LLEN", list)).toBe(1));
  await expect(session.call("other.work", [false])).resolves.toBe("n1");
  for (let i = 0; i < 8; i++) {
    await new Promise((resolve) => setTimeout(resolve, 200)); // the session checks its node meanwhile
    moved.push(...((await stage.server.command("KEYS", "/api/t/sess_req/g:n1/*")) as string[]));
  }
  release.resolve();
  await expect(Promise.all([running, waiting])).resolves.toEqual(["n2", "n2"]);
  expect(moved).toEqual([]);
}, 20_000);

test("a call that waits for a dead node moves to one that serves it, not to the session's other node", async () => {
  const handlers = (name: string) => ({ whoami: () => name });
  const add = async (node: string, service: string) => {
    const options = { ns: "t", group: "g", node, heartbeatMs: 100 };
    const server = new RpcServer(stage.redis, options).add(service, handlers(node));
    return stage.keep(await server.start());
  };
  await add("n1", "other");
  // A node that died: its key is there for a moment, and nobody pops its list.
  const dead = JSON.stringify({ running: 0, services: ["demo"] });
  await stage.server.command("SET", "/api/t/groups/g:n2", dead, "PX", "1500");
  const index = "/api/t/index/groups/g";
  expect(await stage.server.command("EXISTS", index)).toBe(1);
  await stage.server.command("ZADD", index, String(Date.now() + 60_000), "n2");
  const session = (await stage.client({ timeoutMs: 9_000 })).session("g", "c1");
  const waiting = session.call("demo.whoami");
  await eventually(async () =>
    expect(await stage.server.command("LLEN", "/api/t/sess_req/g:n2/demo")).toBe(1),
  );
  await expect(session.call("other.whoami")).resolves.toBe("n1");
  await add("n3", "demo");
  await expect(waiting).resolves.toBe("n3");
}, 20_000);

test("a session streams, notifies, submits, retries and carries metadata", async () => {
  const noted: unknown[] = [];
  let tries = 0;
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await serveNode("n1", {
    async *count([n]: [number]) {
      for (let i = 1; i <= n; i++) yield i;
    },
    note: ([value]: unknown[]) => void noted.push(value),
    add: ([a, b]: [number, number]) => a + b,
    tenant: (_: unknown, { metadata }: CallContext) => metadata.tenant,
    async *double(_: unknown, { incoming }: CallContext) {
      for await (const item of incoming) yield Number(item) * 2;
    },
    hang: async () => {
      tries += 1;
      if (tries > 1) return "second";
      await released;
      return "first";
    },
  });
  const client = await stage.client({ attemptTimeoutMs: 200 });
  const session = client.session("g", "c1");
  expect(await all(session.stream("demo.count", [300]))).toHaveLength(300);
  async function* input() {
    yield 1;
    yield 2;
  }
  expect(await all(session.duplex("demo.double", [], { outgoing: input() }))).toEqual([2, 4]);
  await session.notify("demo.note", [7]);
  await eventually(() => expect(noted).toEqual([7]));
  const ticket = await session.submit("demo.add", [1, 2]);
  expect(await client.poll(ticket, { waitMs: 3_000 })).toEqual({ result: 3 });
  const metadata = { tenant: "a" };
  await expect(session.call("demo.tenant", [], { metadata })).resolves.toBe("a");
  await expect(session.call("demo.hang", [], { idempotent: true })).resolves.toBe("second");
  release();
  await expect(session.call("demo.add", [1, 2], { timeoutMs: Number.NaN })).rejects.toMatchObject({
    code: "INVALID_OPTION",
  });
});

test("the list of a node that is gone expires", async () => {
  await using gone = await spawnScript(NODE, { args: [stage.server.url, "n1"] });
  await gone.waitForLine(/^ready/);
  const session = (await stage.client()).session("g", "c1");
  await session.call("demo.whoami");
  gone.pause();
  const call = () => session.call("demo.whoami", [], { timeoutMs: 300 });
  await Promise.allSettled(Array.from({ length: 5 }, call));
  const left = Number(await stage.server.command("PTTL", "/api/t/sess_req/g:n1/demo"));
  expect(left === -2 || left > 0).toBe(true);
  await gone.kill9();
});

test.each([7, undefined, null, "", {}, "x".repeat(1_001)])(
  "a session cannot be called %j",
  async (name) => {
    const client = await stage.client();
    expect(() => client.session("g", name as string)).toThrow(
      expect.objectContaining({ code: "INVALID_NAME" }),
    );
  },
);

test("a session list of another type does not map a session to its node", async () => {
  await stage.server.command("SET", "/api/t/sess_req/g:n1/demo", "a string");
  await stage.serve(who as never, { node: "n2", group: "g" });
  await stage.serve({ ...who, other: () => 1 } as never, { node: "n1", group: "g" });
  const client = await stage.client();
  for (let i = 0; i < 8; i++) {
    const call = client.session("g", `c${i}`).call("demo.whoami");
    await expect(call).resolves.toMatchObject({ node: "n2" });
  }
});

test("the first call that is run is the new one, although calls before it were refused", async () => {
  await serveNode("n1");
  const session = (await stage.client()).session("g", "c1");
  await expect(session.call("demo.unknown")).rejects.toMatchObject({ code: "METHOD_NOT_FOUND" });
  await expect(session.call("demo.whoami")).resolves.toMatchObject({ isNew: true });
  await expect(session.call("demo.unknown")).rejects.toMatchObject({ code: "METHOD_NOT_FOUND" });
  await expect(session.call("demo.whoami")).resolves.toMatchObject({ isNew: false });
});

test("a call that was refused still shows that the calls of older mappings are outdated", async () => {
  await serveNode("n1");
  const push = async (method: string, e: number) => {
    const call = { id: `${method}${e}`, version: "2", method, params: [], ss: { c: "c1", e } };
    await stage.server.command("LPUSH", "/api/t/sess_req/g:n1/demo", JSON.stringify(call));
    const key = `/api/t/response/${call.id}`;
    const [, text] = (await stage.server.command("BRPOP", key, "10")) as string[];
    return JSON.parse(text ?? "");
  };
  expect(await push("unknown", 5)).toMatchObject({ error: { code: -32601 } });
  expect(await push("whoami", 4)).toMatchObject({ error: { code: -32008 } });
  expect(await push("whoami", 5)).toMatchObject({ result: { isNew: true, epoch: 5 } });
});

test("a session call that is cancelled while it is being pushed is taken out of its list", async () => {
  // A node that lives, as far as its key says, and never pops.
  await stage.server.command("SET", "/api/t/groups/g:n1", "{}");
  const session = (await stage.client()).session("g", "c1");
  await session.node();
  const list = "/api/t/sess_req/g:n1/demo";
  for (let i = 0; i < 20; i++) {
    const abort = new AbortController();
    const call = session.call("demo.run", [i], { signal: abort.signal });
    setImmediate(() => abort.abort());
    await expect(call).rejects.toMatchObject({ code: "CANCELLED" });
  }
  await session.notify("demo.run", ["last"]);
  await eventually(async () => expect(await stage.server.command("LLEN", list)).toBe(1));
});
