import { afterAll, beforeAll, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import {
  defineService,
  type Handlers,
  type RpcClient,
  RpcServer,
  type ServiceClient,
  serve,
} from "../src/index.ts";
import { all, Stage } from "./stage.ts";

const users = defineService("user", {
  addUser: {
    input: z.object({ name: z.string().min(1), age: z.number().default(18) }),
    output: z.object({ id: z.number() }),
    doc: "Adds a user.",
  },
  rename: { input: z.tuple([z.number(), z.string()]), output: z.boolean(), idempotent: true },
  upper: { input: z.string(), output: z.string() },
  ping: { output: z.literal("pong") },
  broken: { output: z.number() },
  feed: { input: z.object({ n: z.number() }), output: z.number(), kind: "stream" },
  double: {
    input: z.object({}),
    incoming: z.number(),
    output: z.number(),
    kind: "duplex",
  },
});

const handlers: Handlers<typeof users.methods> = {
  addUser: ({ age }) => ({ id: age }),
  rename: ([id, name]) => name.length === id,
  upper: (text) => text.toUpperCase(),
  ping: () => "pong",
  broken: () => "not a number" as never,
  async *feed({ n }) {
    for (let i = 0; i < n; i++) yield i;
  },
  async *double(_input, { incoming }) {
    for await (const item of incoming) yield item * 2;
  },
};

let stage: Stage;
let client: RpcClient;
let user: ServiceClient<typeof users.methods>;

beforeAll(async () => {
  stage = await Stage.open();
  stage.keep(await serve(stage.redis, users, handlers, { ns: "t" }));
  client = await stage.client();
  user = client.service(users);
});

afterAll(async () => {
  await stage.close();
});

test("typed calls get typed, validated results", async () => {
  const added = await user.addUser({ name: "ann" });
  expectTypeOf(added).toEqualTypeOf<{ id: number }>();
  expect(added).toEqual({ id: 18 });
  await expect(user.rename([3, "ann"])).resolves.toBe(true);
  await expect(user.upper("x")).resolves.toBe("X");
  await expect(user.ping()).resolves.toBe("pong");
});

test("streams and duplex calls are typed item by item", async () => {
  const items = user.feed({ n: 3 });
  expectTypeOf(items).toEqualTypeOf<AsyncIterableIterator<number>>();
  await expect(all(items)).resolves.toEqual([0, 1, 2]);
  async function* input() {
    yield 4;
    yield 5;
  }
  await expect(all(user.double({}, input()))).resolves.toEqual([8, 10]);
});

test("a wrong argument, a wrong result or an unknown method does not compile", () => {
  // @ts-expect-error name is a text
  void (() => user.addUser({ name: 1 }));
  // @ts-expect-error the input is required
  void (() => user.addUser());
  // @ts-expect-error there is no such method
  void (() => user.removeUser({}));
  // @ts-expect-error the result is an object with an id
  const wrongResult: Handlers<typeof users.methods>["addUser"] = () => ({ id: "1" });
  // @ts-expect-error a handler is missing
  const missing: Handlers<typeof users.methods> = { ping: () => "pong" };
  // @ts-expect-error the items of a stream are numbers
  const wrongItems: Handlers<typeof users.methods>["feed"] = async function* () {
    yield "x";
  };
  expect([wrongResult, missing, wrongItems]).toHaveLength(3);
});

test("what does not fit is refused at the caller, before anything is sent", async () => {
  const call = user.addUser({ name: "" });
  await expect(call).rejects.toMatchObject({ code: "INVALID_PARAMS" });
});

test("what comes from outside is refused at the worker, with the place of each fault", async () => {
  await expect(client.call("user.addUser", { name: 7 })).rejects.toMatchObject({
    code: "INVALID_PARAMS",
    rpcCode: -32602,
    data: [{ path: "name", message: expect.any(String) }],
  });
  await expect(client.call("user.addUser", [])).rejects.toMatchObject({ code: "INVALID_PARAMS" });
  await expect(client.call("user.nope", [])).rejects.toMatchObject({ code: "METHOD_NOT_FOUND" });
});

test("positional arguments of other programs are named by the description", async () => {
  await expect(client.call("user.addUser", ["ann", 30])).resolves.toEqual({ id: 30 });
  await expect(client.call("user.addUser", [{ name: "ann" }])).resolves.toEqual({ id: 18 });
  await expect(client.call("user.upper", ["x"])).resolves.toBe("X");
});

test("a result that does not fit its schema is an INVALID_RESULT", async () => {
  await expect(user.broken()).rejects.toMatchObject({ code: "INVALID_RESULT" });
});

test("the registry has the documentation, the names and the JSON Schemas", async () => {
  const [service] = await client.discover();
  expect(service).toMatchObject({
    name: "user",
    waiting: 0,
    workers: [{ caps: ["rt", "st", "dl"] }],
  });
  expect(service?.methods.addUser).toMatchObject({
    doc: "Adds a user.",
    args: ["name", "age"],
    return: "object",
    kind: "unary",
    schema: { in: { type: "object" }, out: { type: "object" } },
  });
  expect(service?.methods.feed).toMatchObject({ kind: "stream" });
});

test("a service without one of its handlers is refused", () => {
  expect(() => new RpcServer(stage.redis).add(users, {} as never)).toThrow(
    expect.objectContaining({ code: "INVALID_ARGUMENT" }),
  );
});

test("names that cannot stand in a key are refused", async () => {
  expect(() => defineService("a/b", {})).toThrow(expect.objectContaining({ code: "INVALID_NAME" }));
  await expect(client.call("nodot")).rejects.toMatchObject({ code: "INVALID_NAME" });
});

test("the worker applies an output schema before it sends, and a typed caller to what arrived", async () => {
  const accounts = defineService("account", {
    get: { output: z.object({ name: z.string().trim(), since: z.coerce.date() }) },
  });
  const row = { name: " Ann ", since: new Date(5), passwordHash: "secret" };
  stage.keep(await serve(stage.redis, accounts, { get: () => row }, { ns: "t" }));
  const sent = { name: "Ann", since: "1970-01-01T00:00:00.005Z" };
  expect(await client.call("account.get")).toEqual(sent);
  expect(await client.service(accounts).get()).toEqual({ name: "Ann", since: new Date(5) });
});
