import { connect } from "@ropeway/core";
import { eventually, startProxy } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { type CallContext, createClient, defineService, RpcClient } from "../src/index.ts";
import { StreamReceiver } from "../src/stream/stream-receiver.ts";
import { StreamSender } from "../src/stream/stream-sender.ts";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();

test("a cancelled duplex call that waits for input gives its slot back at once", async () => {
  const server = await stage.serve({
    async *echo(_: unknown, { incoming }: CallContext) {
      for await (const item of incoming) yield item;
    },
  });
  const client = await stage.client();
  const abort = new AbortController();
  async function* input() {
    yield 1;
    await new Promise(() => {});
  }
  const stream = client.duplex("demo.echo", [], {
    outgoing: input(),
    options: { signal: abort.signal },
  });
  await expect(stream.next()).resolves.toEqual({ value: 1, done: false });
  expect(server.stats().running).toBe(1);
  abort.abort();
  await expect(stream.next()).rejects.toMatchObject({ code: "CANCELLED" });
  await eventually(() => expect(server.stats().running).toBe(0));
});

test("a stream under way gets its credit while its server closes", async () => {
  const server = await stage.serve({
    async *count([n]: [number]) {
      for (let i = 1; i <= n; i++) yield i;
    },
  });
  const client = await stage.client({ window: 8 });
  const stream = client.stream("demo.count", [500]);
  await stream.next();
  const closed = server.close();
  await expect(all(stream)).resolves.toHaveLength(499);
  await closed;
});

test("return() ends a next() that waits", async () => {
  await stage.serve({
    async *silent(_: unknown, { signal }: CallContext) {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      yield 1;
    },
  });
  const stream = (await stage.client()).stream("demo.silent");
  const next = stream.next();
  await stream.return?.();
  await expect(next).resolves.toEqual({ value: undefined, done: true });
});

test("a stream of a worker that knows only the documented keys is its one result", async () => {
  const client = await stage.client({ timeoutMs: 5_000 });
  for (const payload of [{ result: 7 }, { error: { code: -32602, message: "bad" } }]) {
    const items = all(client.stream("user.list", [1]));
    items.catch(() => {}); // expected below
    const [, text] = (await stage.server.command("BRPOP", "/api/t/request/user", "10")) as string[];
    const { id } = JSON.parse(text ?? "");
    const key = `/api/t/response/${id}`;
    await stage.server.command("LPUSH", key, JSON.stringify({ id, ...payload }));
    if ("result" in payload) await expect(items).resolves.toEqual([7]);
    else await expect(items).rejects.toMatchObject({ code: "INVALID_PARAMS" });
  }
});

const unwritable = (cause: unknown) => new Error("unwritable", { cause });

test("credit is a total: granted twice, it counts once", async () => {
  const posted: string[] = [];
  const post = (text: string) => void posted.push(text);
  const sender = new StreamSender({ id: "i", upto: 2, maxMessageBytes: 1e6, post, unwritable });
  expect(sender.send(1)).toBeUndefined();
  const wait = sender.send(2);
  expect(wait).toBeInstanceOf(Promise);
  sender.control({ upto: 4 });
  await wait;
  sender.control({ upto: 4 }); // doubled on its way
  expect(sender.send(3)).toBeUndefined();
  expect(sender.send(4)).toBeInstanceOf(Promise);
  const granted: string[] = [];
  const receiver = new StreamReceiver({
    window: 4,
    control: (members) => void granted.push(members),
    abandoned: () => {},
    finished: () => {},
  });
  receiver.receive({ seq: 1, items: [1, 2, 3, 4] });
  receiver.receive({ seq: 1, items: [1, 2, 3, 4] });
  for (let i = 0; i < 4; i++) await receiver.next();
  expect(granted).toEqual(['"upto":6,"ack":1', '"upto":8,"ack":1']);
});

test("an acknowledgement of more than was sent ends nothing but the memory of it", async () => {
  const posted: string[] = [];
  const post = (text: string) => void posted.push(text);
  const sender = new StreamSender({ id: "i", upto: 10, maxMessageBytes: 1e6, post, unwritable });
  void sender.send(1);
  sender.flush();
  sender.control(JSON.parse('{"ack":-1e999,"again":1}'));
  expect(posted).toHaveLength(2);
  sender.control(JSON.parse('{"ack":1e999,"upto":1e999}'));
  sender.control({ again: 1 });
  expect(posted).toHaveLength(2);
  void sender.send(2);
  sender.flush();
  expect(posted.at(-1)).toContain('"seq":2,"items":[2]');
});

test("a stream that is cancelled before its call has left is not run", async () => {
  const client = await stage.client();
  const abort = new AbortController();
  const cancelled = client.stream("demo.run", ["cancelled"], { signal: abort.signal });
  const left = client.stream("demo.run", ["left"]);
  abort.abort();
  await left.return?.();
  await expect(cancelled.next()).rejects.toMatchObject({ code: "CANCELLED" });
  const list = "/api/t/request/demo";
  await client.notify("demo.run", ["last"]);
  await eventually(async () => expect(await stage.server.command("LLEN", list)).toBe(1));
  const runs: unknown[] = [];
  await stage.serve({ run: ([name]: [string]) => void runs.push(name) });
  await eventually(() => expect(runs).toEqual(["last"]));
});

test("a client that is closed gives the slots of its streams back", async () => {
  const server = await stage.serve({
    async *silent(_: unknown, { signal }: CallContext) {
      yield 1;
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    },
    async *echo(_: unknown, { incoming }: CallContext) {
      for await (const item of incoming) yield item;
    },
  });
  const client = new RpcClient(stage.redis, { ns: "t" });
  await client.start();
  async function* input() {
    yield 1;
    await new Promise(() => {});
  }
  const streams = [
    client.stream("demo.silent"),
    client.duplex("demo.echo", [], { outgoing: input() }),
  ];
  for (const stream of streams) expect(await stream.next()).toMatchObject({ value: 1 });
  expect(server.stats().running).toBe(2);
  await client.close();
  for (const stream of streams) {
    await expect(stream.next()).rejects.toMatchObject({ code: "CLOSED" });
  }
  await eventually(() => expect(server.stats().running).toBe(0));
});

test("a receiver that learns that it has missed a message asks for it, once per sign of life", () => {
  const asked: string[] = [];
  const receiver = new StreamReceiver({
    window: 4,
    control: (members) => void asked.push(members),
    abandoned: () => {},
    finished: () => {},
  });
  receiver.receive({ last: 0 });
  expect(asked).toEqual([]);
  receiver.receive({ last: 1 }); // the only message was lost, and no other will show it
  expect(asked).toEqual(['"upto":4,"ack":0,"again":1']);
  receiver.receive({ seq: 1, items: [1] });
  receiver.receive({ last: 1 });
  expect(asked).toHaveLength(1);
});

test.each(["session", "typed", "breaker", "whenDown", "not started"])(
  "return() ends a next() that waits, and the handler: %s",
  async (kind) => {
    const server = await stage.serve(
      {
        async *silent(_: unknown, { signal }: CallContext) {
          yield 1;
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
        },
      },
      { node: "n1", group: "g" },
    );
    const options = kind === "breaker" ? { breaker: {} } : {};
    const client = await stage.client(
      kind === "whenDown" ? { whenDown: "fail" as const } : options,
    );
    const later = stage.keep(new RpcClient(stage.redis, { ns: "t" }));
    const feeds = defineService("demo", { silent: { kind: "stream" } });
    const streams: Record<string, () => AsyncIterableIterator<unknown>> = {
      session: () => client.session("g", "c").stream("demo.silent"),
      typed: () => client.service(feeds).silent(),
      "not started": () => later.stream("demo.silent"),
    };
    const stream = streams[kind]?.() ?? client.stream("demo.silent");
    await expect(stream.next()).resolves.toEqual({ value: 1, done: false });
    const next = stream.next();
    await stream.return?.();
    await expect(next).resolves.toEqual({ value: undefined, done: true });
    await expect(stream.next()).resolves.toEqual({ value: undefined, done: true });
    await eventually(() => expect(server.stats().running).toBe(0));
  },
);

test("an abort signal still fails a stream that goes through all layers", async () => {
  await stage.serve({
    async *silent(_: unknown, { signal }: CallContext) {
      yield 1;
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    },
  });
  const client = await stage.client({ breaker: {} });
  const abort = new AbortController();
  const stream = client.stream("demo.silent", [], { signal: abort.signal });
  await stream.next();
  const next = stream.next();
  abort.abort("enough");
  await expect(next).rejects.toMatchObject({ code: "CANCELLED" });
});

test.each([
  ["the caller", { streamIdleMs: 1_500 }, {}],
  ["the worker", {}, { streamIdleMs: 1_500 }],
])("a silent stream lives although %s has a shorter streamIdleMs", async (_, caller, worker) => {
  const ends: (() => void)[] = [];
  await stage.serve(
    {
      async *silent() {
        yield 1;
        await new Promise<void>((resolve) => ends.push(resolve));
        yield 2;
      },
    },
    worker,
  );
  const client = await stage.client(caller);
  const stream = client.stream("demo.silent");
  await stream.next();
  const control = async () => {
    const info = String(await stage.server.command("INFO", "commandstats"));
    return Number(/cmdstat_lpush:calls=(\d+)/.exec(info)?.[1] ?? 0);
  };
  const before = await control();
  // A sign of life and its answer, every third of the idle time, for longer than that.
  await eventually(async () => expect((await control()) - before).toBeGreaterThanOrEqual(8), {
    withinMs: 15_000,
  });
  ends[0]?.();
  await expect(all(stream)).resolves.toEqual([2]);
});

test("a call of a method that streams without end is refused, and its worker goes on", async () => {
  let ended = 0;
  const server = await stage.serve(
    {
      echo: ([value]: unknown[]) => value,
      // Never waits for anything: only the worker can let others have a turn.
      async *endless() {
        try {
          for (let i = 0; ; i++) yield i;
        } finally {
          ended += 1;
        }
      },
      async *slow() {
        try {
          for (let i = 0; ; i++) yield await new Promise((resolve) => setTimeout(resolve, 1, i));
        } finally {
          ended += 1;
        }
      },
    },
    { maxMessageBytes: 100_000 },
  );
  const client = await stage.client();
  const endless = client.call("demo.endless");
  const refused = expect(endless).rejects.toMatchObject({ code: "MESSAGE_TOO_LARGE" });
  await expect(client.call("demo.echo", [1])).resolves.toBe(1);
  await refused;
  const slow = client.call("demo.slow", [], { timeoutMs: 200 });
  await expect(slow).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
  await eventually(() => expect(server.stats().running).toBe(0));
  expect(ended).toBe(2);
});

test("a stream that another worker begins anew breaks instead of repeating and losing items", async () => {
  const client = await stage.client({ replies: "list" });
  const stream = client.stream("user.list");
  const [, text] = (await stage.server.command("BRPOP", "/api/t/request/user", "10")) as string[];
  const { id, rt } = JSON.parse(text ?? "");
  const send = (...messages: object[]) =>
    stage.server.command("LPUSH", rt, ...messages.map((m) => JSON.stringify({ id, ...m })));
  const open = (worker: string) => ({ last: 0, ctl: `/api/t/ctl/${worker}`, upto: 256, ack: 0 });
  await send(open("first"), { seq: 1, items: [1, 2, 3] });
  for (const value of [1, 2, 3]) expect(await stream.next()).toMatchObject({ value });
  // The first worker counted as dead: another one has the call now, and sends its items one by one.
  await send(open("second"), { seq: 1, items: [1] }, { seq: 2, items: [2] });
  await send({ seq: 3, items: [3] }, { seq: 4, items: [4] }, { seq: 5, end: true });
  await expect(stream.next()).rejects.toMatchObject({ code: "STREAM_BROKEN" });
  await eventually(async () => {
    for (const worker of ["first", "second"]) {
      const told = await stage.server.command("LRANGE", `/api/t/ctl/${worker}`, "0", "-1");
      expect(told).toContain(JSON.stringify({ id, cancel: true }));
    }
  });
});

test("an item that cannot be written as JSON ends its stream with an error that says so", async () => {
  const server = await stage.serve(
    {
      async *count() {
        yield 1;
        yield 2n;
      },
      async *read(_, { incoming }) {
        for await (const item of incoming) yield item;
      },
    },
    { exposeErrors: false },
  );
  const client = await stage.client();
  await expect(all(client.stream("demo.count"))).rejects.toMatchObject({ code: "INVALID_RESULT" });
  const input = (async function* () {
    yield 2n;
  })();
  const duplex = all(client.duplex("demo.read", [], { outgoing: input }));
  await expect(duplex).rejects.toMatchObject({ code: "INVALID_PARAMS" });
  await eventually(() => expect(server.stats().running).toBe(0));
});

test("a handler that reads the input of a stream without any finds its end", async () => {
  const count = async function* (_: unknown, { incoming }: CallContext) {
    yield (await all(incoming)).length;
  };
  await stage.serve({ count });
  const client = await stage.client();
  await expect(all(client.stream("demo.count"))).resolves.toEqual([0]);
  await expect(client.call("demo.count")).resolves.toEqual([0]);
});

test("input that a broken connection lost is sent again, its end as well", async () => {
  const proxy = await startProxy(stage.server);
  try {
    const redis = stage.keep(await connect(proxy.url));
    const client = stage.keep(await createClient(redis, { ns: "t", streamIdleMs: 1_000 }));
    await stage.serve({
      async *echo(_, { incoming }) {
        for await (const item of incoming) yield item;
      },
    });
    for (const sent of [[1, 2], []]) {
      let begin = () => {};
      const open = new Promise<void>((resolve) => {
        begin = resolve;
      });
      const outgoing = (async function* () {
        yield 0;
        await open;
        yield* sent;
        proxy.cut(); // with the last of them, and the end, on their way
      })();
      const items: unknown[] = [];
      for await (const item of client.duplex("demo.echo", [], { outgoing })) {
        items.push(item);
        begin();
      }
      expect(items).toEqual([0, ...sent]);
    }
  } finally {
    await stage.clear();
    await proxy.close();
  }
});
