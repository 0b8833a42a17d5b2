import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createClient, type RpcClient, RpcServer } from "../src/index.ts";

const { server, redis } = await redisForFile();
let worker: RpcServer;
let client: RpcClient;

beforeAll(async () => {
  worker = await new RpcServer(redis, { ns: "t", node: "n1", exposeErrors: true })
    .add("demo", {
      echo: ([value]: unknown[]) => value,
      add: ([a, b]: [number, number]) => a + b,
      fail: ([message]: [string]) => {
        throw new TypeError(message);
      },
      later: async ([value]: unknown[]) => value,
      async *count([n]: [number]) {
        for (let i = 1; i <= n; i++) yield i;
      },
      async *double(_params, context) {
        for await (const item of context.incoming) yield Number(item) * 2;
      },
      slow: async (_params, context) => {
        context.progress(0.5, "half");
        await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
        throw new Error("stopped");
      },
    })
    .start();
  client = await createClient(redis, { ns: "t" });
});

afterAll(async () => {
  await client.close();
  await worker.close();
});

test("a call gets its handler's result", async () => {
  await expect(client.call("demo.add", [1, 2])).resolves.toBe(3);
  await expect(client.call("demo.later", [{ a: [null] }])).resolves.toEqual({ a: [null] });
});

test("a handler that throws rejects the call with its message", async () => {
  await expect(client.call("demo.fail", ["oh no"])).rejects.toMatchObject({
    code: "HANDLER_FAILED",
    message: "oh no",
    data: { name: "TypeError" },
  });
});

test("a stream is read to its end", async () => {
  const items: unknown[] = [];
  for await (const item of client.stream("demo.count", [1000])) items.push(item);
  expect(items).toHaveLength(1000);
  expect(items[999]).toBe(1000);
});

test("a duplex call answers each item it is sent", async () => {
  async function* numbers() {
    for (let i = 0; i < 600; i++) yield i;
  }
  const items: unknown[] = [];
  const results = client.duplex("demo.double", [], { outgoing: numbers() });
  for await (const item of results) items.push(item);
  expect(items).toHaveLength(600);
  expect(items[599]).toBe(1198);
});

test("an aborted call is cancelled at its worker", async () => {
  const abort = new AbortController();
  const progress: unknown[] = [];
  const call = client.call("demo.slow", [], {
    signal: abort.signal,
    onProgress: (report) => {
      progress.push(report);
      abort.abort();
    },
  });
  await expect(call).rejects.toMatchObject({ code: "CANCELLED" });
  expect(progress).toMatchObject([{ percent: 0.5, message: "half" }]);
  await expect.poll(() => worker.stats().running).toBe(0);
});

test("ten thousand calls at once all get their own answer", async () => {
  const answers = await Promise.all(
    Array.from({ length: 10_000 }, (_, i) => client.call("demo.echo", [i])),
  );
  expect(answers).toEqual(Array.from({ length: 10_000 }, (_, i) => i));
});

test("an answer that comes after a long poll has given up is there for the next poll", async () => {
  const ticket = await client.submit("nobody.work");
  const [, id] = ticket.split("/");
  await expect(client.poll(ticket, { waitMs: 20 })).resolves.toBeNull();
  await server.command("LPUSH", `/api/t/response/${id}`, JSON.stringify({ id, result: 7 }));
  await expect(client.poll(ticket, { waitMs: 2_000 })).resolves.toEqual({ result: 7 });
  await expect(client.poll(ticket)).resolves.toEqual({ result: 7 }); // it stays for others
});
