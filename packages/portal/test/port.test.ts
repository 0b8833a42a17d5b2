// What every port of ours does with requests that are hostile, too large or too slow.
import { connect as connectSocket } from "node:net";
import { MergeQueue } from "@ropeway/merge";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, describe, expect, test } from "vitest";
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
});
