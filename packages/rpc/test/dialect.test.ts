import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RpcError } from "../src/errors.ts";
import type { Dialect, OutgoingCall } from "../src/wire/dialect.ts";
import { writeHead } from "../src/wire/head.ts";
import { JsonRpcDialect } from "../src/wire/jsonrpc-dialect.ts";
import { KwDialect } from "../src/wire/kw-dialect.ts";

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
const dialects: Dialect[] = [new JsonRpcDialect("t"), new KwDialect("p", () => NOW)];

const everything: OutgoingCall = {
  id: "0f-1",
  method: "add",
  params: '{"a":1}',
  timeoutMs: 5_000,
  metadata: { tenant: "a" },
  deadline: 1_763_245_000_123,
  replyTo: "/api/t/reply/c",
  track: true,
  trackEnd: true,
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  window: 64,
  session: { client: 'c "1"', epoch: 3 },
};

describe.each(dialects.map((dialect) => [dialect.name, dialect] as const))("%s", (_, dialect) => {
  test("a call with everything is read back as it was written", () => {
    const text = dialect.encodeCall(everything);
    expect(dialect.decodeCall(text, "add")).toEqual({
      ...everything,
      params: { a: 1 },
      notification: false,
    });
  });

  test("a notification is read back as one", () => {
    const text = dialect.encodeCall({ ...everything, notification: true });
    expect(dialect.decodeCall(text, "add").notification).toBe(true);
  });

  test("results and errors are read back as they were written", () => {
    const result = JSON.parse(dialect.encodeResult("i", '{"x":[null]}', true));
    expect(dialect.decodeResponse(result)).toMatchObject({ result: { x: [null] } });
    const error = { code: -32601, message: "no", data: { a: 1 } };
    const failed = JSON.parse(dialect.encodeError("i", error, true));
    expect(dialect.decodeResponse(failed)).toMatchObject({ error });
  });

  test("progress is read back as it was written", () => {
    const progress = { time: NOW, percent: 0.562, message: "half" };
    expect(dialect.decodeProgress(JSON.parse(dialect.encodeProgress(progress, false)))).toEqual(
      progress,
    );
  });

  test("whatever is found in a list is a call or a typed error", () => {
    const member = fc.oneof(
      fc.string(),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.object(),
    );
    const message = fc.record(
      {
        id: member,
        method: member,
        params: member,
        kw: member,
        dl: member,
        rt: member,
        st: member,
        ss: member,
      },
      { requiredKeys: [] },
    );
    const texts = fc.oneof(
      fc.string(),
      fc.json(),
      message.map((value) => JSON.stringify(value)),
      message.map((value) => JSON.stringify(value).slice(0, -3)),
    );
    fc.assert(
      fc.property(texts, (text) => {
        try {
          const call = dialect.decodeCall(text, "add");
          expect(typeof call.id).toBe("string");
        } catch (error) {
          expect(error).toBeInstanceOf(RpcError);
        }
      }),
      { seed: 7 },
    );
  });
});

test("the jsonrpc call is the documented one with our members around it", () => {
  const text = new JsonRpcDialect("t").encodeCall({
    id: "i",
    method: "add_user",
    params: '["sdm","password"]',
    deadline: undefined,
  });
  expect(text).toBe('{"id":"i","version":"2","method":"add_user","params":["sdm","password"]}');
});

test("the kw call and answers are the documented ones", () => {
  const dialect = new KwDialect("p", () => NOW);
  const call = { id: "i", method: "f", params: '{"arg1":"value1"}', deadline: undefined };
  expect(dialect.encodeCall(call)).toBe(
    '{"id":"i","ts":"2026-01-02T03:04:05.678Z","kw":{"arg1":"value1"}}',
  );
  expect(dialect.encodeResult("i", "3", false)).toBe('{"ts":"2026-01-02T03:04:05.678Z","res":3}');
  const failure = { code: -32000, message: "'k'", data: { name: "KeyError" } };
  expect(JSON.parse(dialect.encodeError("i", failure, false))).toMatchObject({
    ts: "2026-01-02T03:04:05.678Z",
    exc: "KeyError: 'k'",
    err: "KeyError: 'k'",
  });
});

test("a kw failure is read from err or from exc, and an empty one is a failure too", () => {
  const dialect = new KwDialect("p", () => NOW);
  for (const answer of [{ err: "E: x" }, { exc: "E: x" }, { err: "E: x", exc: "other" }]) {
    expect(dialect.decodeResponse(answer)).toMatchObject({ error: { message: "E: x" } });
  }
  expect(dialect.decodeResponse({ err: "" })).toMatchObject({ error: { message: "" } });
  expect(dialect.decodeResponse({ res: null, verbose: false })).toEqual({ result: null });
});

test("a kw call without kw, or with null, has no arguments; positional ones are refused", () => {
  const dialect = new KwDialect("p", () => NOW);
  expect(dialect.decodeCall('{"id":"i"}', "f").params).toEqual({});
  expect(dialect.decodeCall('{"id":"i","kw":null}', "f").params).toEqual({});
  expect(() =>
    dialect.encodeCall({ id: "i", method: "f", params: "[1]", deadline: undefined }),
  ).toThrow(expect.objectContaining({ code: "INVALID_PARAMS" }));
});

test("a call in the usual layout may escape what its encoder likes to escape", () => {
  const dialect = new JsonRpcDialect("t");
  const usual = `{"dl":${NOW},"id":"c.1"${dialect.plainMiddle("m", "/api/t/reply/c", 10_000)}["/"]}`;
  const escaped = usual.replaceAll("/", "\\/");
  expect(dialect.decodeCall(escaped)).toEqual(dialect.decodeCall(usual));
});

test("a call is read the same whether its layout is the usual one or not", () => {
  const dialect = new JsonRpcDialect("t");
  const member = fc.oneof(fc.string(), fc.constantFrom('"', "\\", '","params":', "}", "é"));
  const params = fc.oneof(fc.dictionary(member, fc.jsonValue()), fc.array(fc.jsonValue()));
  fc.assert(
    fc.property(member.filter(Boolean), params, fc.nat(40), (method, value, cut) => {
      const replyTo = "/api/t/reply/c";
      const id = "c.1";
      const head = `{"dl":${NOW},"id":"${id}"`;
      const usual = `${head}${dialect.plainMiddle(method, replyTo, 10_000)}${JSON.stringify(value)}}`;
      const other = JSON.stringify({ ...(JSON.parse(usual) as object), more: 1 });
      expect(dialect.decodeCall(usual)).toEqual(dialect.decodeCall(other));
      const broken = usual.slice(0, usual.length - 1 - cut);
      expect(() => dialect.decodeCall(broken)).toThrow(
        expect.objectContaining({ code: "PARSE_ERROR" }),
      );
    }),
    { seed: 7 },
  );
});

test("params that are neither an array nor an object are refused also in the usual layout", () => {
  const dialect = new JsonRpcDialect("t");
  const usual = `{"dl":${NOW},"id":"c.1"${dialect.plainMiddle("m", "/api/t/reply/c", 10_000)}`;
  expect(dialect.decodeCall(`${usual}{}}`)).toMatchObject({ params: {} });
  for (const params of ['"text"', "5", "true", "null"]) {
    expect(() => dialect.decodeCall(`${usual}${params}}`)).toThrow(
      expect.objectContaining({ code: "INVALID_REQUEST" }),
    );
  }
});

test("calls of several clients, methods and deadlines do not mix", () => {
  const dialect = new JsonRpcDialect("t");
  const written = Array.from({ length: 40 }, (_, i) => ({
    id: `c${i % 3}.${i}`,
    method: ["add", "ad", "add_all"][(i % 5) >> 1] as string,
    params: { i },
    deadline: NOW + (i % 4),
    timeoutMs: 1_000 * (1 + (i % 2)),
    replyTo: `/api/t/reply/c${i % 3}`,
  }));
  for (const call of written) {
    const { id, deadline, method, replyTo, timeoutMs, params } = call;
    const middle = dialect.plainMiddle(method, replyTo, timeoutMs);
    const text = `${writeHead(deadline, id)}${middle}${JSON.stringify(params)}}`;
    expect(dialect.decodeCall(text)).toMatchObject(call);
  }
});
