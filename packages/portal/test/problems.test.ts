import { once } from "node:events";
import { connect as connectTcp } from "node:net";
import { text } from "node:stream/consumers";
import {
  InvalidOptionError,
  type Logger,
  NotConnectedError,
  RopewayError,
  ServerReplyError,
  TimeoutError,
} from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { PROBLEMS } from "../src/http/problems.ts";
import { needs, type PortalPart } from "../src/index.ts";
import { problemOf, Stage } from "./stage.fixture.ts";

const errors: Record<string, () => unknown> = {
  unknown: () => new Error("the secret is 42"),
  unlisted: () => new RopewayError("NEVER_LISTED", "the secret is 42"),
  thrown: () => "the secret is 42",
  option: () => new InvalidOptionError("size", 5, "small"),
  lost: () => new NotConnectedError("10.9.8.7:6379", 5),
  slow: () => new TimeoutError("secret 42", 5),
  full: () => new ServerReplyError("SET", new Error("OOM command not allowed, secret 42")),
  wrong: () => new ServerReplyError("GET", new Error("WRONGTYPE secret 42")),
};

const part: PortalPart = {
  name: "test",
  about: { en: "For tests.", zh: "测试。" },
  permissions: { "thing:edit": { least: "admin", means: "Edit things." } },
  routes(app) {
    app.get("/test/throw/:kind", { config: needs("public") }, (request) => {
      throw errors[(request.params as { kind: string }).kind]?.();
    });
    app.post(
      "/test/things/:id",
      {
        config: needs("public"),
        bodyLimit: 1_000,
        schema: {
          params: z.object({ id: z.coerce.number().int() }),
          querystring: z.object({ limit: z.coerce.number().max(500).optional() }),
          body: z.object({ name: z.string(), tags: z.array(z.string()).optional() }),
          response: { 200: z.object({ seen: z.unknown() }) },
        },
      },
      (request) => ({ seen: request.body, secret: 42 }),
    );
    app.get("/test/guarded", { config: needs("thing:edit") }, () => "done");
    app.get(
      "/test/mismatch",
      { config: needs("public"), schema: { response: { 200: z.object({ n: z.number() }) } } },
      () => ({ n: "the secret is 42" as unknown as number }),
    );
  },
};

const logged: { fields: Record<string, unknown>; message: string }[] = [];
const note = (fields: object, message: string) => {
  logged.push({ fields: fields as Record<string, unknown>, message });
};
const logger: Logger = { debug: note, info: note, warn: note, error: note };

let stage: Stage;

beforeAll(async () => {
  stage = await Stage.open({ parts: [part], logger });
  await stage.addAccount("vera", "viewer");
});

afterAll(() => stage.close());

test("a problem has every member, and the request's id is in the header too", async () => {
  const answer = await stage.ask("/nothing/here?token=secret");
  const requestId = answer.headers.get("x-request-id");
  expect(await problemOf(answer)).toEqual({
    type: "/docs#ROUTE_NOT_FOUND",
    title: "Route not found",
    status: 404,
    detail: "GET /nothing/here not found",
    instance: "/nothing/here",
    code: "ROUTE_NOT_FOUND",
    requestId,
  });
});

test("a sane request id is kept, any other is replaced", async () => {
  const ask = async (id: string) =>
    (await stage.ask("/healthz", { headers: { "x-request-id": id } })).headers.get("x-request-id");
  expect(await ask("trace-1:2.3/4")).toBe("trace-1:2.3/4");
  for (const bad of ['a"b', "a b", "x".repeat(129), "<script>"]) {
    const given = await ask(bad);
    expect(given).not.toBe(bad);
    expect(given).toMatch(/^[\w.-]{8,40}$/);
  }
});

test.each([
  ["unknown", 500, "INTERNAL"],
  ["unlisted", 500, "INTERNAL"],
  ["thrown", 500, "INTERNAL"],
  ["wrong", 500, "INTERNAL"],
  ["full", 503, "SERVER_REPLY"],
  ["lost", 503, "NOT_CONNECTED"],
  ["slow", 504, "TIMEOUT"],
])("an error of our side (%s) is a %i %s that gives nothing away", async (kind, status, code) => {
  const answer = await stage.ask(`/test/throw/${kind}`);
  expect(answer.headers.get("retry-after")).toBe(status === 503 ? "1" : null);
  const problem = await problemOf(answer);
  expect(problem).toMatchObject({ status, code });
  expect(JSON.stringify(problem)).not.toMatch(/secret|10\.9|stack|\.ts/);
  const line = logged.find(({ message, fields }) => {
    return message === "request failed" && fields.requestId === problem.requestId;
  });
  expect(line?.fields.err).toBeDefined();
});

test("an option that a library refused is the caller's mistake, in the library's words", async () => {
  expect(await problemOf(await stage.ask("/test/throw/option"))).toMatchObject({
    status: 400,
    code: "INVALID_OPTION",
    detail: "option size is 5, but must be small",
  });
});

test("an answer that does not fit its schema is our fault and stays here", async () => {
  const problem = await problemOf(await stage.ask("/test/mismatch"));
  expect(problem.code).toBe("INTERNAL");
  expect(JSON.stringify(problem)).not.toContain("secret");
});

test("validation names each parameter that is wrong, with its value", async () => {
  const answer = await stage.ask("/test/things/7?limit=9000", {
    method: "POST",
    body: { name: 5, tags: ["a", 1] },
  });
  const problem = await problemOf(answer);
  expect(problem).toMatchObject({ status: 400, code: "INVALID_REQUEST" });
  expect(problem.errors).toEqual([
    { pointer: "/body/name", detail: "body name is 5, but must be a string" },
    { pointer: "/body/tags/1", detail: "body tags.1 is 1, but must be a string" },
  ]);
  const query = await problemOf(
    await stage.ask("/test/things/7?limit=9000", { method: "POST", body: { name: "a" } }),
  );
  expect(query.errors?.[0]).toEqual({
    pointer: "/query/limit",
    detail: 'query limit is "9000", but must be at most 500',
  });
  const path = await problemOf(
    await stage.ask("/test/things/seven", { method: "POST", body: { name: "a" } }),
  );
  expect(path.errors?.[0]).toMatchObject({ pointer: "/path/id" });
  expect(path.detail).toContain('path id is "seven"');
});

test.each([
  [{ username: "admin", password: "" }, "body password must have at least 1 character"],
  [{ username: "admin" }, "body password must be a string"],
  [
    { username: "admin", password: "x", as: "magic" },
    'body as is "magic", but must be one of "cookie", "token"',
  ],
  [{ username: "admin", password: "x", extra: 1 }, 'body has unknown fields: "extra"'],
  [[1], "body must be an object"],
])("a wrong sign-in is refused in plain words: %j", async (body, detail) => {
  const problem = await problemOf(await stage.ask("/api/session", { method: "POST", body }));
  expect(problem.errors).toEqual([expect.objectContaining({ detail })]);
});

test("validation never repeats a password, wherever it stands", async () => {
  const long = "hunter2".repeat(30);
  for (const body of [
    { username: "admin", password: long },
    { username: "admin", password: 12345678 },
    { username: 5, password: "hunter2" },
    { username: "admin", password: "hunter2", extra: 1 },
  ]) {
    const answer = await stage.ask("/api/session", { method: "POST", body });
    expect(answer.status).toBe(400);
    expect(await answer.text()).not.toMatch(/hunter2|12345678/);
  }
});

test("an answer has only what its schema has", async () => {
  const answer = await stage.ask("/test/things/1", { method: "POST", body: { name: "a" } });
  expect(await answer.json()).toEqual({ seen: { name: "a" } });
});

test.each([
  ["__proto__", '{"name":"a","__proto__":{"admin":true}}'],
  ["constructor.prototype", '{"name":"a","constructor":{"prototype":{"admin":true}}}'],
  ["half of it", '{"name":'],
  ["nothing", ""],
  ["nesting without end", "[".repeat(900)],
])("a JSON body with %s is refused", async (_title, body) => {
  const headers = { "content-type": "application/json" };
  const answer = await stage.ask("/test/things/1", { method: "POST", headers, body });
  expect(await problemOf(answer)).toMatchObject({ status: 400, code: "INVALID_JSON" });
  expect({}).not.toHaveProperty("admin");
});

test("a body that is too large is refused by its length, declared or counted", async () => {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ name: "x".repeat(1_000) });
  const declared = await stage.ask("/test/things/1", { method: "POST", headers, body });
  expect(await problemOf(declared)).toMatchObject({
    status: 413,
    code: "BODY_TOO_LARGE",
    detail: "the body is larger than 1000 bytes",
  });
  const chunks = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(body));
      controller.close();
    },
  });
  const init = { method: "POST", headers, body: chunks, duplex: "half" } as RequestInit;
  const counted = await fetch(`${stage.url}/test/things/1`, init);
  expect(await problemOf(counted)).toMatchObject({ status: 413 });
});

test("another content type than JSON is refused", async () => {
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "text/html"]) {
    const headers = { "content-type": type };
    const answer = await stage.ask("/test/things/1", { method: "POST", headers, body: "name=a" });
    expect(await problemOf(answer)).toMatchObject({ status: 415, code: "UNSUPPORTED_MEDIA_TYPE" });
  }
});

test("a known path asked with the wrong method says which it takes, to anyone", async () => {
  const answer = await stage.ask("/test/things/9", { method: "DELETE" });
  expect(answer.headers.get("allow")).toBe("POST");
  expect(await problemOf(answer)).toMatchObject({ status: 405, code: "METHOD_NOT_ALLOWED" });
  const session = await stage.ask("/api/session", { method: "PATCH", body: { a: 1 } });
  expect(session.headers.get("allow")).toBe("GET, HEAD, POST, DELETE");
});

test("a role without the permission is refused before its body is read", async () => {
  const headers = await stage.bearer("vera");
  const answer = await stage.ask("/test/guarded", { headers });
  expect(await problemOf(answer)).toMatchObject({
    status: 403,
    code: "FORBIDDEN",
    detail: 'the role "viewer" does not have the permission thing:edit',
  });
  const admin = await stage.ask("/test/guarded", { headers: await stage.bearer() });
  expect(await admin.text()).toBe("done");
});

test("a long name in a path is a name like any other", async () => {
  const path = `/test/throw/${"x".repeat(2_000)}`;
  expect((await stage.ask(path)).status).toBe(500); // it was found
});

test("a URL that cannot be read is a problem with all headers", async () => {
  const answer = await stage.ask("/%zz");
  expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
  expect(await problemOf(answer)).toMatchObject({ status: 400, code: "INVALID_URL" });
});

test("what is not HTTP is answered with a problem and cut", async () => {
  const { hostname, port } = new URL(stage.url);
  const socket = connectTcp(Number(port), hostname);
  await once(socket, "connect");
  socket.write("hello?\r\n\r\n");
  const answer = await text(socket);
  expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
  expect(JSON.parse(answer.split("\r\n\r\n")[1] ?? "")).toMatchObject({ code: "BAD_REQUEST" });
});

test("every answer carries the security headers", async () => {
  for (const path of ["/", "/healthz", "/api/session", "/nothing"]) {
    const { headers } = await stage.ask(path);
    expect(headers.get("content-security-policy")).toMatch(
      /default-src 'none'.*frame-ancestors 'none'/,
    );
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("referrer-policy")).toBe("no-referrer");
    expect(headers.get("cache-control")).toBe("no-store");
  }
});

test("the log has one line per request, without query, body, cookie or password", async () => {
  const answers = [
    await stage.login({ password: "a wrong secret" }, { cookie: "secret=1" }),
    await stage.ask("/healthz?secret=2", { headers: { authorization: "Bearer secret" } }),
  ];
  const ids = answers.map(({ headers }) => headers.get("x-request-id"));
  const lines = await eventually(() => {
    const found = logged.filter(({ fields }) => ids.includes(String(fields.requestId)));
    expect(found).toHaveLength(2);
    return found;
  });
  expect(lines[0]).toMatchObject({
    message: "request",
    fields: { requestId: ids[0], method: "POST", path: "/api/session", status: 401 },
  });
  expect(JSON.stringify(lines)).not.toContain("secret");
});

test("every code of a problem has a status and a title", () => {
  for (const [code, { status, title }] of Object.entries(PROBLEMS)) {
    expect(code).toMatch(/^[A-Z_]+$/);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(title).not.toBe("");
  }
});
