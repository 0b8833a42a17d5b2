// What every port of ours does with requests that are hostile, too large or too slow.
import { once } from "node:events";
import { type IncomingMessage, type RequestListener, request, Server } from "node:http";
import { type AddressInfo, connect as connectSocket } from "node:net";
import { encodeService, MergeQueue } from "@ropeway/merge";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, describe, expect, test, vi } from "vitest";
import { boundedServer } from "../src/http/port-options.ts";
import { createPortal, MergeServer } from "../src/index.ts";

const { redis } = await redisForFile();
const requestTimeoutMs = 400;
const portal = createPortal(redis, { requestTimeoutMs, hosts: ["portal.example"] });
const { url } = await portal.start();
afterAll(() => portal.close());
const queue = new MergeQueue(redis, { prefix: "{port}" });
const service = await new MergeServer(queue, {
  port: 0,
  requestTimeoutMs,
  hosts: ["portal.example"],
}).start();
afterAll(async () => {
  await service.close();
  await queue.close();
});

/** Sends the text as it is and returns everything that comes back until the server closes. */
function exchange(base: string, text: string): Promise<string> {
  const { port, hostname } = new URL(base);
  return new Promise((resolve, reject) => {
    const socket = connectSocket(Number(port), hostname, () => socket.write(text));
    let answer = "";
    socket.setEncoding("utf8");
    socket.on("data", (chunk) => {
      answer += chunk;
    });
    socket.on("error", reject);
    socket.on("close", () => resolve(answer));
  });
}

/** The status and the problem of a raw answer. */
function problemIn(answer: string): { status: number; code: string; isProblem: boolean } {
  const [head = "", body = ""] = answer.split("\r\n\r\n");
  return {
    status: Number(head.split(" ")[1]),
    code: (JSON.parse(body) as { code: string }).code,
    isProblem: /^content-type: application\/problem\+json/im.test(head),
  };
}

describe.each([
  ["the portal", url, "/api/session"],
  ["the merge queue's port", service.url, "/v3/queue/k/post/http%3A%2F%2F127.0.0.1%3A9%2F"],
])("%s", (_name, base, path) => {
  const head = (host: string, more = "") =>
    `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${more}`;
  const json = "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

  test("refuses a Host that is not ours, and serves those that are", async () => {
    for (const host of ["evil.example", "evil.example:7480", "127.0.0.1.evil.example"]) {
      expect(problemIn(await exchange(base, head(host, json)))).toEqual({
        status: 421,
        code: "UNKNOWN_HOST",
        isProblem: true,
      });
    }
    for (const host of ["localhost", "127.0.0.1:1", "[::1]:1", "Portal.example"]) {
      expect(await exchange(base, head(host, json))).not.toContain("UNKNOWN_HOST");
    }
    const read = `GET ${path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n`;
    expect(problemIn(await exchange(base, read)).code).toBe("UNKNOWN_HOST");
  });

  test("refuses what a browser sends from another site's page, reads included", async () => {
    for (const from of ["Origin: http://evil.example", "Sec-Fetch-Site: cross-site"]) {
      for (const method of ["POST", "GET", "DELETE"]) {
        const text = head("localhost", `${from}\r\n${json}`).replace("POST", method);
        expect(problemIn(await exchange(base, text))).toEqual({
          status: 403,
          code: "CROSS_SITE",
          isProblem: true,
        });
      }
    }
  });

  test("cuts a body that does not arrive in time", async () => {
    const text = head("localhost", "Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{");
    expect(problemIn(await exchange(base, text))).toEqual({
      status: 408,
      code: "REQUEST_TIMEOUT",
      isProblem: true,
    });
  });

  test("cuts headers that do not arrive in time or are too large", async () => {
    expect(problemIn(await exchange(base, "GET / HTTP/1.1\r\nHost: local"))).toMatchObject({
      status: 408,
      isProblem: true,
    });
    const large = head("localhost", `X: ${"x".repeat(20_000)}\r\n\r\n`);
    expect(problemIn(await exchange(base, large))).toEqual({
      status: 431,
      code: "HEADERS_TOO_LARGE",
      isProblem: true,
    });
  });

  test("answers what is not HTTP with a problem", async () => {
    expect(problemIn(await exchange(base, "\u0016\u0003\u0001 hello\r\n\r\n"))).toEqual({
      status: 400,
      code: "BAD_REQUEST",
      isProblem: true,
    });
  });

  test("serves a target that is a whole URL, by the host of that URL", async () => {
    const absolute = (host: string) =>
      head("localhost", json).replace(path, `http://${host}${path}?x=http://evil.example`);
    const usual = problemIn(await exchange(base, head("localhost", json)));
    expect(problemIn(await exchange(base, absolute("127.0.0.1:1")))).toEqual(usual);
    expect(problemIn(await exchange(base, absolute("evil.example"))).code).toBe("UNKNOWN_HOST");
  });

  test("a client that sends all of a body that is too large gets the response", async () => {
    for (let i = 0; i < 10; i++) {
      const answer = await fetch(`${base}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: Buffer.alloc(8 * 1_048_576, " "),
      });
      expect(answer.status).toBe(413);
      expect(await answer.json()).toMatchObject({ code: "BODY_TOO_LARGE" });
    }
  });

  test("a request keeps its own response if what follows it is not HTTP", async () => {
    const answer = await exchange(base, `${head("evil.example", json)}\u0016\u0003\u0001`);
    expect(problemIn(answer).code).toBe("UNKNOWN_HOST");
  });
});

const push = `${service.url}/v3/queue/k/POST/${encodeService("http://example.com/")}?ontime=4000000000`;

describe("a client that waits for 100 Continue", () => {
  const ask = async (bytes: number) => {
    const headers = { expect: "100-continue", "content-length": bytes };
    const asked = request(push, { method: "POST", headers });
    const answered = once(asked, "response") as Promise<[IncomingMessage]>;
    let continued = false;
    asked.once("continue", () => {
      continued = true;
      asked.end("1".repeat(bytes));
    });
    asked.flushHeaders();
    const [answer] = await answered;
    asked.destroy();
    return { continued, status: answer.statusCode, connection: answer.headers.connection };
  };

  test("is told to send its body", async () => {
    expect(await ask(3)).toMatchObject({ continued: true, status: 202 });
  });

  test("is refused before it sends a body that is too large", async () => {
    const refused = { continued: false, status: 413, connection: "close" };
    expect(await ask(2_000_000)).toEqual(refused);
  });
});

test("a connection that was never used does not hold up the close", async () => {
  const closing = await new MergeServer(queue, { port: 0 }).start();
  const { hostname, port } = new URL(closing.url);
  const silent = connectSocket(Number(port), hostname);
  await once(silent, "connect");
  await fetch(closing.url); // so that the server has accepted the connection before this one
  const ended = once(silent.resume(), "close").then(() => "ended by the server");
  const cut = vi.spyOn(Server.prototype, "closeAllConnections");
  await closing.close();
  expect(await ended).toBe("ended by the server");
  expect(cut).not.toHaveBeenCalled();
  cut.mockRestore();
});

test("requests that fail for the same passing reason are logged once", async () => {
  const lines: unknown[] = [];
  const none = () => {};
  const logger = {
    debug: none,
    info: none,
    warn: none,
    error: (line: unknown) => lines.push(line),
  };
  await using paused = await new MergeServer(queue, { port: 0, logger }).start();
  await paused.pause();
  for (let i = 0; i < 5; i++) expect((await fetch(`${paused.url}/v3/queue/k`)).status).toBe(503);
  expect(lines).toMatchObject([{ code: "OVERLOADED" }]);
});

test("every response of a connection ends with it, also behind another one", async () => {
  const closed: string[] = [];
  const asked: string[] = [];
  const serve: RequestListener = (request, response) => {
    const { url: path = "" } = request;
    asked.push(path);
    request.resume(); // its body is read, so that Node has forgotten the request when the connection closes
    response.once("close", () => closed.push(path));
    if (path === "/3") setImmediate(() => response.end("not sent")); // it waits for the first
  };
  const server = boundedServer(60_000, serve).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const socket = connectSocket(port, "127.0.0.1");
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
  const post = "POST /2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
  const waiting = post.replace("/2", "/4").replace("Content", "Expect: 100-continue\r\nContent");
  socket.write(get("/1") + post + get("/3") + waiting);
  await eventually(() => expect(asked).toEqual(["/1", "/2", "/3", "/4"]));
  expect(closed).toEqual([]);
  socket.destroy();
  await eventually(() => expect(closed.sort()).toEqual(["/1", "/2", "/3", "/4"]));
  await new Promise((resolve) => server.close(resolve));
});
