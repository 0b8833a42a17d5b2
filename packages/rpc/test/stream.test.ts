import { connect } from "@ropeway/core";
import { eventually, startProxy } from "@ropeway/testkit";
import { afterEach, expect, test } from "vitest";
import { createClient, RpcServer } from "../src/index.ts";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();
let produced = 0;
let ended: string[] = [];

const handlers = {
  async *count([n]: [number]) {
    try {
      for (let i = 1; i <= n; i++) {
        produced = i;
        yield i;
      }
    } finally {
      ended.push("count");
    }
  },
  async *fails() {
    yield 1;
    throw new Error("half way");
  },
  async *silent(_params: unknown, { signal }: { signal: AbortSignal }) {
    yield 1;
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    ended.push("silent");
  },
  async *echo(_params: unknown, { incoming }: { incoming: AsyncIterable<unknown> }) {
    for await (const item of incoming) yield item;
  },
  async sum(_params: unknown, { incoming }: { incoming: AsyncIterable<unknown> }) {
    let total = 0;
    for await (const item of incoming) total += Number(item);
    return total;
  },
  plain: () => "one value",
};

async function* numbers(n: number) {
  for (let i = 1; i <= n; i++) yield i;
}

afterEach(async () => {
  await stage.clear();
  produced = 0;
  ended = [];
});

test("a stream arrives in order, to its end", async () => {
  await stage.serve(handlers);
  const client = await stage.client();
  const items = await all(client.stream("demo.count", [5_000]));
  expect(items).toEqual(Array.from({ length: 5_000 }, (_, i) => i + 1));
  expect(ended).toEqual(["count"]);
});

test("an error in the middle comes after the items before it", async () => {
  await stage.serve(handlers);
  const items: unknown[] = [];
  const read = async () => {
    for await (const item of (await stage.client()).stream("demo.fails")) items.push(item);
  };
  await expect(read()).rejects.toThrow("half way");
  expect(items).toEqual([1]);
});

test("a slow reader slows the producer to its window", async () => {
  await stage.serve(handlers);
  const client = await stage.client({ window: 16 });
  const items = client.stream("demo.count", [1_000_000]);
  for (let i = 1; i <= 100; i++) {
    expect((await items.next()).value).toBe(i);
    expect(produced).toBeLessThanOrEqual(i + 16 + 1);
  }
  await items.return?.();
  await eventually(() => expect(ended).toEqual(["count"]));
});

test("leaving the loop stops the producer", async () => {
  await stage.serve(handlers);
  const client = await stage.client();
  for await (const item of client.stream("demo.silent")) {
    expect(item).toBe(1);
    break;
  }
  await eventually(() => expect(ended).toEqual(["silent"]));
});

test("an abort signal ends the stream at both ends", async () => {
  await stage.serve(handlers);
  const client = await stage.client();
  const abort = new AbortController();
  const stream = client.stream("demo.silent", [], { signal: abort.signal });
  await expect(stream.next()).resolves.toEqual({ value: 1, done: false });
  const next = stream.next();
  abort.abort();
  await expect(next).rejects.toMatchObject({ code: "CANCELLED" });
  await eventually(() => expect(ended).toEqual(["silent"]));
});

test("a duplex stream echoes thousands of items, each once, in order", async () => {
  await stage.serve(handlers);
  const client = await stage.client();
  const items = await all(client.duplex("demo.echo", [], { outgoing: numbers(3_000) }));
  expect(items).toEqual(Array.from({ length: 3_000 }, (_, i) => i + 1));
});

test("input can be summed up to one result, and a method that does not stream gives one item", async () => {
  await stage.serve(handlers);
  const client = await stage.client();
  await expect(all(client.duplex("demo.sum", [], { outgoing: numbers(1_000) }))).resolves.toEqual([
    500_500,
  ]);
  await expect(all(client.stream("demo.plain"))).resolves.toEqual(["one value"]);
});

test("an unknown method, or no worker at all, ends a stream with an error", async () => {
  const client = await stage.client();
  await expect(all(client.stream("demo.count", [1], { timeoutMs: 200 }))).rejects.toMatchObject({
    code: "DEADLINE_EXCEEDED",
  });
  await stage.serve(handlers);
  await expect(all(client.stream("demo.nope"))).rejects.toMatchObject({ code: "METHOD_NOT_FOUND" });
});

test("a stream goes on after the reader's, and after the worker's, connections were cut", async () => {
  await using proxy = await startProxy(stage.server);
  const far = await connect(proxy.url);
  const server = new RpcServer(far, { ns: "t" }).add("demo", handlers as never);
  await server.start();
  const client = await createClient(far, { ns: "t", window: 32 });
  const items: unknown[] = [];
  for await (const item of client.stream("demo.count", [2_000])) {
    items.push(item);
    if (items.length === 500 || items.length === 1_200) proxy.cut();
  }
  expect(items).toEqual(Array.from({ length: 2_000 }, (_, i) => i + 1));
  await client.close();
  await server.close();
  await far.close();
});

test("a stream whose worker is gone breaks instead of hanging", async () => {
  await using proxy = await startProxy(stage.server);
  const far = await connect(proxy.url);
  const server = await new RpcServer(far, { ns: "t" }).add("demo", handlers as never).start();
  const client = await stage.client({ streamIdleMs: 300 });
  const read = async () => {
    for await (const item of client.stream("demo.silent")) {
      expect(item).toBe(1);
      proxy.refuse();
      proxy.cut();
    }
  };
  await expect(read()).rejects.toMatchObject({ code: "STREAM_BROKEN" });
  await proxy.heal();
  await server.close();
  await far.close();
});
