import { InvalidArgumentError, OverloadedError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { z } from "zod";
import { errorFromWire } from "../src/errors.ts";
import {
  ApplicationError,
  type CallContext,
  defineService,
  HandlerFailedError,
  MethodNotFoundError,
  RpcServer,
} from "../src/index.ts";
import { LoadShedder } from "../src/server/load-shedder.ts";
import type { IncomingCall } from "../src/wire/dialect.ts";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();

const orders = defineService(
  "order",
  {
    place: { input: z.object({ item: z.string() }), output: z.number() },
    watch: { output: z.number(), kind: "stream" },
  },
  { errors: { OUT_OF_STOCK: z.object({ left: z.number() }) } },
);

test("a declared error arrives as its class, with typed data", async () => {
  const server = new RpcServer(stage.redis, { ns: "t" }).add(orders, {
    place: ({ item }) => {
      throw new orders.errors.OUT_OF_STOCK({ left: item.length }, "sold out");
    },
    // biome-ignore lint/correctness/useYield: it fails before its first item
    async *watch() {
      throw new orders.errors.OUT_OF_STOCK({ left: 1 });
    },
  });
  stage.keep(await server.start());
  const client = await stage.client();
  const error = await client
    .service(orders)
    .place({ item: "abc" })
    .catch((e: unknown) => e);
  if (!(error instanceof orders.errors.OUT_OF_STOCK)) throw error;
  const left: number = error.data.left;
  expect({ left, message: error.message, name: error.error }).toEqual({
    left: 3,
    message: "sold out",
    name: "OUT_OF_STOCK",
  });
  expect(error).toBeInstanceOf(ApplicationError);
  await expect(all(client.service(orders).watch())).rejects.toBeInstanceOf(
    orders.errors.OUT_OF_STOCK,
  );
  expect(() => new orders.errors.OUT_OF_STOCK({ left: "x" } as never)).toThrow(
    InvalidArgumentError,
  );
});

test("versions of a service run side by side", async () => {
  const v1 = defineService("user", { name: { output: z.string() } });
  const v2 = defineService("user", { name: { output: z.number() } }, { version: "2.1" });
  const server = new RpcServer(stage.redis, { ns: "t" });
  server.add(v1, { name: () => "ann" }).add(v2, { name: () => 7 });
  stage.keep(await server.start());
  const client = await stage.client();
  await expect(client.service(v1).name()).resolves.toBe("ann");
  await expect(client.service(v2).name()).resolves.toBe(7);
  await expect(client.call("user@2.1.name")).resolves.toBe(7);
  expect((await client.discover()).map(({ name }) => name)).toEqual(["user", "user@2.1"]);
});

test("metadata reaches middleware, handlers and nested calls; interceptors and middleware see params", async () => {
  const seen: unknown[] = [];
  const server = await stage.serve({
    outer: (_: unknown, context: CallContext) => context.call("demo.inner", [2]),
    inner: (_: unknown, { metadata }: CallContext) => metadata.tenant,
    async *items(_: unknown, { metadata }: CallContext) {
      yield metadata.tenant;
    },
  });
  server.use(async (context, next) => {
    seen.push([context.method, context.params, context.metadata.tenant]);
    return next();
  });
  const client = await stage.client();
  const intercepted: unknown[] = [];
  client.use(async (request, next) => {
    intercepted.push([request.kind, request.method, request.params]);
    const { options } = request;
    return next({ ...request, options: { metadata: { tenant: "a" }, ...options } });
  });
  await expect(client.call("demo.outer", [1])).resolves.toBe("a");
  expect(seen).toEqual([
    ["outer", [1], "a"],
    ["inner", [2], "a"],
  ]);
  await expect(all(client.stream("demo.items"))).resolves.toEqual(["a"]);
  await client.notify("demo.inner", [3], { metadata: { tenant: "b" } });
  await eventually(() => expect(seen).toContainEqual(["inner", [3], "b"]));
  expect(intercepted).toEqual([
    ["call", "outer", [1]],
    ["stream", "items", []],
    ["notify", "inner", [3]],
  ]);
});

test("an interceptor can respond by itself, and one that throws fails the call", async () => {
  const client = await stage.client();
  client.use(async (request, next) => (request.method === "cached" ? 42 : next(request)));
  client.use(async () => {
    throw new ApplicationError(403, "no");
  });
  await expect(client.call("demo.cached")).resolves.toBe(42);
  await expect(client.call("demo.other")).rejects.toMatchObject({ rpcCode: 403 });
});

test("the message of an undeclared error is masked, and told to the server", async () => {
  const failures: unknown[] = [];
  const server = new RpcServer(stage.redis, { ns: "t" }).add("demo", {
    fail: () => {
      throw new Error("password is hunter2");
    },
  });
  server.on("failed", (call, error) => failures.push([call.method, (error as Error).message]));
  stage.keep(await server.start());
  const client = await stage.client();
  const error = await client.call("demo.fail").catch((e: unknown) => e);
  expect(error).toBeInstanceOf(HandlerFailedError);
  expect(JSON.stringify(error)).not.toContain("hunter2");
  expect(String(error)).not.toContain("hunter2");
  expect(failures).toEqual([["fail", "password is hunter2"]]);
  const ticket = await client.submit("demo.fail");
  await client.poll(ticket, { waitMs: 3_000 }).catch(() => {});
  const raw = await stage.server.command(
    "LRANGE",
    `/api/t/response/${ticket.split("/")[1]}`,
    "0",
    "-1",
  );
  expect(String(raw)).not.toContain("hunter2");
});

test("errors arrive as their class", async () => {
  await stage.serve({
    busy: () => {
      throw new OverloadedError("the shop", "too many orders");
    },
  });
  const client = await stage.client();
  const missing = await client.call("demo.nope").catch((e: unknown) => e);
  expect(missing).toBeInstanceOf(MethodNotFoundError);
  expect(missing).toMatchObject({ details: { service: "demo", method: "nope" } });
  await expect(client.call("demo.busy")).rejects.toBeInstanceOf(OverloadedError);
});

test("a worker sheds calls that waited too long, and the excess of a long queue", async () => {
  const client = await stage.client({ timeoutMs: 20_000 });
  // Sent a minute ago, with a deadline in a minute.
  const old = (_: unknown, i: number) =>
    `{"dl":${Date.now() + 60_000},"id":"c${i}","version":"2","method":"echo","to":120000,"params":[]}`;
  const texts = Array.from({ length: 20 }, old);
  await stage.server.command("LPUSH", "/api/t/request/demo", ...texts);
  const server = await stage.serve(
    { echo: ([value]: unknown[]) => value },
    { loadShedding: { maxQueueAgeMs: 30_000 } },
  );
  for (let i = 0; i < 20; i++) {
    const [, text] = (await stage.server.command(
      "BRPOP",
      `/api/t/response/c${i}`,
      "10",
    )) as string[];
    expect(errorFromWire(JSON.parse(text ?? "").error)).toMatchObject({ code: "OVERLOADED" });
  }
  expect(server.stats().shed).toBe(20);
  await expect(client.call("demo.echo", [1])).resolves.toBe(1);
  await server.close();

  const ends: (() => void)[] = [];
  const wait = () => new Promise<void>((resolve) => ends.push(resolve));
  await stage.serve({ wait }, { concurrency: 1, loadShedding: { maxQueueLength: 2 } });
  const more = Array.from({ length: 10 }, () => client.call("demo.wait"));
  let over = false;
  const outcomes = Promise.allSettled(more).finally(() => {
    over = true;
  });
  await eventually(async () => {
    expect(await stage.server.command("LLEN", "/api/t/request/demo")).toBe(2);
  });
  await eventually(async () => {
    for (const end of ends.splice(0)) end();
    expect(over).toBe(true);
  });
  const codes = (await outcomes).map((o) => (o.status === "fulfilled" ? "ok" : o.reason.code));
  expect(codes.filter((code) => code === "ok")).toHaveLength(3);
  expect(codes.filter((code) => code === "OVERLOADED")).toHaveLength(7);
});

test("a worker whose handlers return at once sheds the excess of a long queue", async () => {
  const call = (_: unknown, i: number) =>
    `{"id":"c${i}","version":"2","method":"echo","params":[${i}]}`;
  await stage.server.command("LPUSH", "/api/t/request/demo", ...Array.from({ length: 10 }, call));
  const runs: unknown[] = [];
  const server = await stage.serve(
    { echo: ([value]: unknown[]) => void runs.push(value) },
    { concurrency: 1, loadShedding: { maxQueueLength: 2 } },
  );
  await eventually(() => expect(runs.length + server.stats().shed).toBe(10));
  expect(runs).toEqual([0, 8, 9]);
});

test("a standing queue is shed by controlled delay, a burst is not", async () => {
  const call = (age: number) =>
    ({ deadline: 1_000_000 + 500 - age, timeoutMs: 500 }) as IncomingCall;
  const now = 1_000_000;
  const burst = new LoadShedder({ targetDelayMs: 10, intervalMs: 60_000 });
  for (let i = 0; i < 100; i++) expect(burst.refusal("l", call(50), now)).toBeUndefined();
  const standing = new LoadShedder({ targetDelayMs: 10, intervalMs: 20 });
  expect(standing.refusal("l", call(50), now)).toBeUndefined();
  await eventually(() => expect(standing.refusal("l", call(50), now)).toContain("waited 50 ms"));
  expect(standing.refusal("l", call(5), now)).toBeUndefined(); // the queue is short again
  const patient = new LoadShedder({ targetDelayMs: 10, intervalMs: 60_000, maxQueueAgeMs: 40 });
  expect(patient.refusal("l", call(50), now)).toContain("more than 40 ms");
  expect(patient.refusal("l", { ...call(50), deadline: undefined }, now)).toBeUndefined();
});

test.each([false, true])(
  "a worker that is busy sheds the excess of its queue meanwhile (at-least-once: %j)",
  async (atLeastOnce) => {
    const ends: (() => void)[] = [];
    const wait = () => new Promise<void>((resolve) => ends.push(resolve));
    const options = { atLeastOnce, concurrency: 1, loadShedding: { maxQueueLength: 2 } };
    await stage.serve({ wait }, options);
    const client = await stage.client({ timeoutMs: 60_000 });
    const first = client.call("demo.wait");
    await eventually(() => expect(ends).toHaveLength(1));
    const codes: string[] = [];
    const more = Array.from({ length: 6 }, () =>
      client.call("demo.wait").then(
        () => codes.push("ok"),
        (error) => codes.push(error.code),
      ),
    );
    // The only slot is still taken.
    await eventually(() => expect(codes).toEqual(Array.from({ length: 4 }, () => "OVERLOADED")), {
      withinMs: 15_000,
    });
    await eventually(() => {
      for (const end of ends.splice(0)) end();
      expect(codes).toHaveLength(6);
    });
    await Promise.all([first, ...more]);
  },
);
