import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  DeadLetters,
  Endpoints,
  HttpDispatcher,
  type HttpDispatcherOptions,
  Inspector,
  keyOf,
  MergeQueue,
  verifyWebhook,
} from "../src/index.ts";
import { Receiver } from "./receiver.ts";

const { server, redis } = await redisForFile();
let queue: MergeQueue;
let inspector: Inspector;
let letters: DeadLetters;
let endpoints: Endpoints;
let receiver: Receiver;
let prefixes = 0;
const open: { close(): Promise<void> }[] = [];

beforeEach(async () => {
  prefixes += 1;
  queue = new MergeQueue(redis, { prefix: `h${prefixes}` });
  inspector = new Inspector(queue);
  letters = new DeadLetters(queue);
  endpoints = new Endpoints(queue);
  receiver = await Receiver.start();
});

afterEach(async () => {
  await Promise.all(open.splice(0).map((each) => each.close()));
  await receiver.close();
});

const QUICK: HttpDispatcherOptions = { backoff: { delayMs: 20, maxMs: 50 }, holdJitterMs: 1 };

async function dispatch(options: HttpDispatcherOptions = {}) {
  const delivery = { allow: ["loopback"], breaker: { threshold: 1_000 }, ...QUICK, ...options };
  const dispatcher = await new HttpDispatcher(queue, delivery).start();
  open.push(dispatcher);
  return dispatcher;
}

let ids = 0;
function push(body: string | Buffer, o: { key?: string; url?: string; type?: string } = {}) {
  const target = { mergeKey: o.key ?? "k", url: o.url ?? receiver.url(), method: "POST" };
  ids += 1;
  const id = `item${ids}`;
  return queue.push(keyOf(target, id), body, { id, contentType: o.type });
}

async function deadLetter() {
  return eventually(async () => {
    const [letter] = (await letters.list()).items;
    if (letter === undefined) throw new Error("no dead letter");
    return letter;
  });
}

const empty = () =>
  eventually(async () => expect((await inspector.stats()).keys).toBe(0), { withinMs: 8_000 });

test("a batch is one request with an array in push order, signed and named", async () => {
  const keys = [`whsec_${Buffer.alloc(24, 1).toString("base64")}`];
  const rotated = [...keys, `whsec_${Buffer.alloc(32, 2).toString("base64")}`];
  await inspector.pause();
  const first = await push('{"n":1}');
  const second = await push('{"n":2}');
  await dispatch({ signingKeys: rotated });
  await inspector.resume();
  await empty();
  expect(receiver.bodies()).toEqual([[{ n: 1 }, { n: 2 }]]);
  const [request] = receiver.requests;
  expect(request?.method).toBe("POST");
  expect(request?.headers["content-type"]).toBe("application/json");
  expect(request?.headers["webhook-items"]).toBe(`${first.id},${second.id}`);
  for (const key of rotated)
    verifyWebhook(request?.headers ?? {}, request?.raw ?? "", { keys: [key] });
  expect(() => verifyWebhook(request?.headers ?? {}, "tampered", { keys })).toThrow("no signature");
  const late = Date.now() + 3_600_000;
  expect(() =>
    verifyWebhook(request?.headers ?? {}, request?.raw ?? "", { keys, now: late }),
  ).toThrow("too far from now");
});

test("a single item is an array too; a key with - gets the body alone, with its type", async () => {
  await dispatch();
  await push('"lonely"');
  await push(Buffer.from([0, 255, 10]), { key: "-x", type: "application/octet-stream" });
  await push('"two"', { key: "-x" });
  await empty();
  const byBody = new Map(
    receiver.requests.map((request) => [request.raw.toString("hex"), request]),
  );
  expect(byBody.get(Buffer.from('["lonely"]').toString("hex"))).toBeDefined();
  const bytes = byBody.get("00ff0a");
  expect(bytes?.headers["content-type"]).toBe("application/octet-stream");
  expect(byBody.get(Buffer.from('"two"').toString("hex"))?.headers["content-type"]).toBe(
    "application/json",
  );
});

test.each([
  ["PUT", 201],
  ["PATCH", 202],
  ["DELETE", 204],
  ["GET", 299],
])("%s is called as such, and %i means delivered", async (method, status) => {
  receiver.answer = (_, response) => response.writeHead(status).end();
  await dispatch();
  await queue.push(keyOf({ mergeKey: "k", url: receiver.url("/a,b?c=d,e"), method }, ""), "1");
  await empty();
  expect(receiver.requests).toMatchObject([{ method, path: "/a,b?c=d,e", body: "[1]" }]);
});

test("a receiver that is down for a while gets the same batch under the same id", async () => {
  let answers = 0;
  receiver.answer = (_, response) => {
    answers += 1;
    response.statusCode = answers < 3 ? 500 : 204;
    response.end();
  };
  await dispatch();
  await push("1");
  await empty();
  expect(receiver.requests.map(({ body }) => body)).toEqual(["[1]", "[1]", "[1]"]);
  expect(new Set(receiver.requests.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
});

test("a receiver that does not listen leaves the reason with the waiting batch", async () => {
  const url = receiver.url();
  await receiver.close();
  await dispatch();
  await push("1", { url });
  await eventually(async () => {
    const [pending] = (await inspector.list()).items;
    expect(pending?.error).toContain("ECONNREFUSED");
    expect(pending?.attempts).toBeGreaterThan(0);
  });
  receiver = await Receiver.start();
});

test("429 with Retry-After holds every key of the endpoint, and is no attempt for the others", async () => {
  let answers = 0;
  receiver.answer = (_, response) => {
    answers += 1;
    if (answers === 1) response.writeHead(429, { "retry-after": "1" });
    response.end();
  };
  await dispatch();
  await push("1", { key: "a" });
  await eventually(() => expect(receiver.requests).toHaveLength(1));
  await eventually(async () => {
    const [endpoint] = (await endpoints.list()).items;
    expect(endpoint).toMatchObject({ url: receiver.url(), status: "429" });
    expect(endpoint?.heldUntil).toBeGreaterThan(0);
  });
  const refusedAt = receiver.requests[0]?.at ?? 0;
  await push("2", { key: "b" });
  await empty();
  expect(receiver.bodies()).toHaveLength(3);
  expect(receiver.requests[1]?.at).toBeGreaterThanOrEqual(refusedAt + 950);
  expect(receiver.requests[2]?.at).toBeGreaterThanOrEqual(refusedAt + 950);
});

test("a batch whose receiver asks for time waits that long itself, not only its endpoint", async () => {
  receiver.answer = (_, response) => response.writeHead(503, { "retry-after": "50" }).end();
  const failures: number[] = [];
  const dispatcher = await dispatch();
  dispatcher.on("failed", (_batch, { retryMs }) => failures.push(retryMs));
  await push("1");
  await eventually(() => expect(failures).toEqual([50_000]));
  await endpoints.enable(receiver.url()); // ends the hold of the endpoint
  const [waiting] = (await inspector.list()).items;
  expect((waiting?.at ?? 0) - Date.now()).toBeGreaterThan(20_000);
  expect(receiver.requests).toHaveLength(1);
});

test("410 disables the endpoint: its batches are dead letters until it is enabled", async () => {
  receiver.answer = (_, response) => {
    response.statusCode = 410;
    response.end();
  };
  await dispatch();
  await push("1");
  expect((await deadLetter()).reason).toContain("410");
  await push("2");
  await eventually(async () => expect((await letters.list()).items).toHaveLength(2));
  expect(receiver.requests).toHaveLength(1);
  expect((await letters.list()).items[0]?.reason).toContain("disabled");
  receiver.answer = (_, response) => response.end();
  await endpoints.enable(receiver.url());
  for (const { id } of (await letters.list()).items) await letters.replay(id);
  await eventually(() => expect(receiver.bodies().slice(1).flat().sort()).toEqual([1, 2]));
});

test("207 retries only the failed items, by id or by position", async () => {
  let answers = 0;
  receiver.answer = ({ headers }, response) => {
    answers += 1;
    const ids = String(headers["webhook-items"]).split(",");
    if (answers === 1) {
      response.statusCode = 207;
      response.end(JSON.stringify({ failed: [ids[0], 2] }));
    } else {
      response.statusCode = 207;
      response.end(JSON.stringify({ failed: [] }));
    }
  };
  await inspector.pause();
  for (const body of ["1", "2", "3"]) await push(body);
  await dispatch();
  await inspector.resume();
  await empty();
  expect(receiver.bodies()).toEqual([
    [1, 2, 3],
    [1, 3],
  ]);
});

test("a 207 that cannot be read retries everything", async () => {
  let answers = 0;
  receiver.answer = (_, response) => {
    answers += 1;
    response.statusCode = answers === 1 ? 207 : 200;
    response.end("not json");
  };
  await dispatch();
  await push("1");
  await empty();
  expect(receiver.bodies()).toEqual([[1], [1]]);
});

test("a receiver that hangs is given up after the timeout and tried again", async () => {
  let answers = 0;
  receiver.answer = (_, response) => {
    answers += 1;
    if (answers > 1) response.end();
  };
  await dispatch({ timeoutMs: 2_000 });
  await push("1");
  await empty();
  expect(receiver.requests).toHaveLength(2);
});

test("an answer that streams for ever counts by its status, and its connection is cut", async () => {
  let cut = 0;
  receiver.answer = (_, response) => {
    response.writeHead(200);
    const timer = setInterval(() => response.write(Buffer.alloc(65_536)), 1);
    response.on("close", () => {
      cut += 1;
      clearInterval(timer);
    });
  };
  await dispatch({ maxResponseBytes: 100_000 });
  await push("1");
  await empty();
  await eventually(() => expect(cut).toBe(1));
  expect(receiver.requests).toHaveLength(1);
});

test("a redirect is not followed, it is a failure", async () => {
  const other = await Receiver.start();
  open.push(other);
  receiver.answer = (_, response) => {
    response.writeHead(302, { location: other.url() });
    response.end();
  };
  await dispatch({ attempts: 2 });
  await push("1");
  expect((await deadLetter()).reason).toContain("302");
  expect(other.requests).toHaveLength(0);
  expect(receiver.requests).toHaveLength(2);
});

test("a blocked address is never called: literal, by name, and by rebinding", async () => {
  let lookups = 0;
  const resolver = async (name: string) => {
    lookups += 1;
    if (name === "inside.test") return [{ address: "10.1.2.3", family: 4 as const }];
    if (name === "mixed.test") {
      return [
        { address: "93.184.216.34", family: 4 as const },
        { address: "::ffff:127.0.0.1", family: 6 as const },
      ];
    }
    // rebinding: whatever earlier look-ups returned, the one that counts returns loopback
    return [{ address: "127.0.0.1", family: 4 as const }];
  };
  await dispatch({ allow: [], resolver });
  const { port } = receiver;
  const hosts = [
    "127.0.0.1",
    "[::1]",
    "[::ffff:7f00:1]",
    "inside.test",
    "mixed.test",
    "rebind.test",
  ];
  for (const host of hosts) await push("1", { url: `http://${host}:${port}/` });
  await eventually(async () => expect((await letters.list()).items).toHaveLength(hosts.length));
  for (const { reason } of (await letters.list()).items) {
    expect(reason).toMatch(/must not be called: .*ROPEWAY_MERGE_ALLOW/);
  }
  expect(receiver.requests).toHaveLength(0);
  expect(lookups).toBe(3);
});

test("the connection goes to the address that was checked, although the name moves on", async () => {
  let lookups = 0;
  const resolver = async () => {
    lookups += 1;
    return [{ address: lookups === 1 ? "127.0.0.1" : "10.0.0.1", family: 4 as const }];
  };
  await dispatch({ allow: ["127.0.0.1"], resolver });
  await push("1", { url: `http://moving.test:${receiver.port}/` });
  await empty();
  expect(receiver.bodies()).toEqual([[1]]);
  expect(receiver.requests[0]?.headers.host).toBe(`moving.test:${receiver.port}`);
  expect(lookups).toBe(1);
});

test("an item of a foreign program that is not JSON becomes a dead letter, the others arrive", async () => {
  const key = keyOf({ mergeKey: "k", method: "POST", url: receiver.url() }, "");
  await push("1");
  await server.command("RPUSH", queue.keys.queue(key), "{broken");
  await server.command("RPUSH", queue.keys.queue(key), "2");
  await dispatch();
  await empty();
  expect(receiver.bodies()).toEqual([[1, 2]]);
  const letter = await deadLetter();
  expect(letter).toMatchObject({ key, items: 1, reason: "not JSON" });
  expect(String((await letters.items(letter.id)).items[0]?.body)).toBe("{broken");
});

test("a key of the wrong type is set aside and stops nobody", async () => {
  await server.command("SET", queue.keys.queue("odd"), "not a list");
  await server.command("ZADD", queue.keys.timer, 1, "odd");
  await push("1");
  await dispatch();
  await empty();
  expect(receiver.bodies()).toEqual([[1]]);
  expect(await server.command("ZRANGE", queue.keys.broken, 0, -1)).toEqual(["odd"]);
});

test("the circuit breaker opens per origin, spends no attempts, and a probe closes it", async () => {
  let broken = true;
  receiver.answer = (_, response) => {
    response.statusCode = broken ? 503 : 200;
    response.end();
  };
  await dispatch({ breaker: { threshold: 3, openMs: 300 }, attempts: 4, concurrency: 1 });
  await push("1");
  await eventually(async () =>
    expect((await endpoints.list()).items[0]).toMatchObject({ breaker: "open" }),
  );
  expect(receiver.requests).toHaveLength(3);
  await push("2", { key: "other" }); // held by the breaker, not tried
  await eventually(async () =>
    expect((await inspector.list({ search: "other" })).items[0]?.error).toContain("breaker"),
  );
  expect(receiver.requests).toHaveLength(3);
  broken = false;
  await empty();
  expect((await letters.list()).items).toEqual([]);
  expect(receiver.requests).toHaveLength(5);
  await eventually(async () =>
    expect((await endpoints.list()).items[0]).toMatchObject({ breaker: "closed" }),
  );
});

test("https only refuses http, and a key that names no target is a dead letter", async () => {
  await dispatch({ httpsOnly: true });
  await push("1");
  expect((await deadLetter()).reason).toContain("https");
  await queue.push("just a key", "1");
  await eventually(async () => expect((await letters.list()).items).toHaveLength(2));
  expect(receiver.requests).toHaveLength(0);
});

test("options that cannot work are refused before anything starts", async () => {
  expect(() => new HttpDispatcher(queue, { timeoutMs: 30_000 })).toThrow("timeoutMs");
  expect(() => new HttpDispatcher(queue, { allow: ["not a host!"] })).toThrow("allow");
  expect(() => new HttpDispatcher(queue, { signingKeys: ["weak"] })).toThrow(
    expect.objectContaining({
      code: "INVALID_OPTION",
      message: expect.not.stringContaining("weak"),
    }),
  );
});
