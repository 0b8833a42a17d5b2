import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { encodeService, HttpDispatcher, Inspector, MergeQueue } from "@ropeway/merge";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { MergeServer } from "../src/index.ts";

const { server, redis } = await redisForFile();
const queue = new MergeQueue(redis);
let service: MergeServer;
const requests: { path: string; headers: IncomingHttpHeaders; raw: Buffer }[] = [];
let answer: (path: string, response: ServerResponse) => void;
const receiver = createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const path = request.url ?? "";
  requests.push({ path, headers: request.headers, raw: Buffer.concat(chunks) });
  answer(path, response);
});
const hook = (path: string) =>
  `http://127.0.0.1:${(receiver.address() as AddressInfo).port}${path}`;

beforeAll(async () => {
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  service = await new MergeServer(queue, { port: 0, allow: ["loopback"] }).start();
});

afterAll(async () => {
  await service.close();
  receiver.closeAllConnections();
  await new Promise((resolve) => receiver.close(resolve));
});

beforeEach(async () => {
  requests.length = 0;
  answer = (_, response) => response.end();
  await server.command("FLUSHALL");
});

const push = (mergeKey: string, headers: Record<string, string>, body: string | Buffer = "1") => {
  const url = `${service.url}/v3/queue/${mergeKey}/POST/${encodeService(hook("/hook"))}`;
  return fetch(url, { method: "POST", headers, body } as RequestInit);
};
const deliver = (options = {}) =>
  new HttpDispatcher(queue, {
    ...{ allow: ["loopback"], backoff: { delayMs: 10, maxMs: 10 }, ...options },
  }).start();

describe("the headers of a push", () => {
  test("forward headers, and an item that is delivered alone keeps its Content-Encoding", async () => {
    const body = gzipSync("plain");
    const sent = { "content-encoding": "GZIP", "content-type": "text/plain" };
    const forward = {
      "ropeway-forward-x-tenant": "7",
      "ropeway-forward-authorization": "Bearer t",
    };
    expect((await push("-one", { ...sent, ...forward }, body)).status).toBe(202);
    await using _dispatcher = await deliver();
    await eventually(() => expect(requests).toHaveLength(1));
    expect(requests[0]?.raw).toEqual(body);
    expect(requests[0]?.headers).toMatchObject({
      ...{ "content-encoding": "gzip", "content-type": "text/plain" },
      ...{ "x-tenant": "7", authorization: "Bearer t" },
    });
    expect(requests[0]?.headers).not.toHaveProperty("ropeway-forward-x-tenant");
  });

  test("decide about attempts, timeout and the callback of a failure", async () => {
    const failureCallback = hook("/failed");
    answer = (path, response) => {
      if (path === "/failed") response.end(); // the hook itself hangs
    };
    const headers = {
      ...{ "ropeway-attempts": "2", "ropeway-timeout-ms": "50" },
      "ropeway-failure-callback": failureCallback,
    };
    expect((await push("k", headers)).status).toBe(202);
    await using _dispatcher = await deliver();
    // How many requests reach the hook within 50 ms is up to the machine.
    const told = await eventually(() => {
      const found = requests.find(({ path }) => path === "/failed");
      expect(found).toBeDefined();
      return found;
    });
    expect(JSON.parse(String(told?.raw))).toMatchObject({
      ...{ type: "dead", key: "k", attempt: 2, reason: expect.stringContaining("timed out") },
    });
  });

  test("name a callback of success", async () => {
    const callback = hook("/done");
    expect((await push("k", { "ropeway-callback": callback })).status).toBe(202);
    await using _dispatcher = await deliver();
    await eventually(() => {
      expect(requests.map(({ path }) => path)).toEqual(["/hook", "/done"]);
    });
    expect(JSON.parse(String(requests[1]?.raw))).toMatchObject({
      ...{ type: "delivered", key: "k", status: 200 },
    });
  });

  test.each([
    ["ropeway-atempts", "3"],
    ["ropeway-attempts", "0"],
    ["ropeway-attempts", "many"],
    ["ropeway-timeout-ms", "-1"],
    ["ropeway-callback", "ftp://example.com/"],
    ["ropeway-failure-callback", "https://user:pw@example.com/"],
    ["ropeway-forward-content-length", "7"],
    ["ropeway-forward-webhook-id", "7"],
    ["content-encoding", "gzip"],
  ])("are refused and store nothing: %s: %s", async (name, value) => {
    const response = await push("merged", { [name]: value });
    expect(response.status).toBe(400);
    expect(response.headers.get("content-type")).toContain("application/problem+json");
    expect((await new Inspector(queue).stats()).keys).toBe(0);
  });

  test("may say that a merged item has no encoding", async () => {
    expect((await push("merged", { "content-encoding": "Identity" })).status).toBe(202);
  });
});

test.each([
  { port: -1 },
  { port: 70_000 },
  { port: Number.NaN },
  { maxBodyBytes: 0 },
  { maxBodyBytes: Number.NaN },
  { requestTimeoutMs: -5 },
  { host: "" },
  { hosts: "example.com" },
  { tokens: [""] },
  { tokens: "token" },
  { allow: "loopback" },
  { nonsense: 1 },
])("a server with wrong options is refused: %j", (wrong) => {
  expect(() => new MergeServer(queue, wrong as object)).toThrow(
    expect.objectContaining({ code: "INVALID_OPTION" }),
  );
});

test("a wrong list of tokens is refused without showing them", () => {
  expect(() => new MergeServer(queue, { tokens: ["s3cret", ""] })).toThrow(
    expect.objectContaining({ message: expect.not.stringContaining("s3cret") }),
  );
});
