import { expect, test } from "vitest";
import { ApplicationError, HandlerFailedError, InvalidRequestError } from "../src/index.ts";
import { readId } from "../src/wire/dialect.ts";
import { KwDialect } from "../src/wire/kw-dialect.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();
const kw = { dialect: "kw", prefix: "p" } as const;

test("a numeric id beyond 2^53 is answered under the digits that were sent", async () => {
  await stage.serve({ echo: ([value]: unknown[]) => value });
  const id = "12345678901234567890";
  const call = `{"more":{"id":1},"text":"\\"id\\":2","id":${id},"version":"2","method":"echo","params":[1]}`;
  await stage.server.command("LPUSH", "/api/t/request/demo", call);
  const answer = await stage.server.command("BRPOP", `/api/t/response/${id}`, "10");
  expect(answer).not.toBeNull();
});

test("an outdated call of another program's layout is not run either", async () => {
  let runs = 0;
  const run = () => {
    runs += 1;
  };
  await stage.serve({ run });
  await stage.server.command("LPUSH", "/api/t/request/demo", '{"id":"i","method":"run","dl":1}');
  const [, answer] = (await stage.server.command("BRPOP", "/api/t/response/i", "10")) as string[];
  expect(JSON.parse(answer ?? "")).toMatchObject({ error: { code: -32001 } });
  expect(runs).toBe(0);
});

test("the digits of a numeric id are found in any text, also in one that is very long", () => {
  const id = "12345678901234567890";
  const before = [
    '"text":"\\\\","more":"\\"id\\":1",',
    `"text":${JSON.stringify('\\"'.repeat(20_000))},`,
    `"text":"${"a".repeat(20_000_000)}",`,
    `"number":${"1".repeat(300)},"list":[{"id":2},["id",3]],`,
  ];
  for (const members of before) {
    const text = `{${members}"id" : ${id},"method":"m"}`;
    expect(readId(JSON.parse(text), text)).toBe(id);
  }
  for (const value of ["1e400", "1.5", "-12345678901234567890", "1".repeat(257)]) {
    const text = `{"id":${value}}`;
    expect(() => readId(JSON.parse(text), text)).toThrow(InvalidRequestError);
  }
});

test("an error with an empty message is not empty in the kw wire", async () => {
  await stage.serve(
    {
      fail: () => {
        throw new ApplicationError(7, "");
      },
    },
    kw,
  );
  await stage.server.command("RPUSH", "p:fail:calls", '{"id":"i","kw":{}}');
  const [, answer] = (await stage.server.command("BLPOP", "p:fail:result:i", "10")) as string[];
  const { err, exc } = JSON.parse(answer ?? "");
  expect({ err, exc }).toEqual({ err: "error 7", exc: "error 7" });
});

test("tracebacks travel both ways in the kw wire", async () => {
  await stage.serve(
    {
      fail: () => {
        throw new RangeError("too far");
      },
    },
    kw,
  );
  await stage.server.command("RPUSH", "p:fail:calls", '{"id":"i","kw":{}}');
  const [, answer] = (await stage.server.command("BLPOP", "p:fail:result:i", "10")) as string[];
  expect(JSON.parse(answer ?? "")).toMatchObject({
    err: "RangeError: too far",
    err_traceback: expect.stringContaining("wire-defects.test.ts"),
  });
  const client = await stage.client(kw);
  const call = client.call("python", {}).catch((error: unknown) => error);
  const [, text] = (await stage.server.command("BLPOP", "p:python:calls", "10")) as string[];
  const { id } = JSON.parse(text ?? "");
  const failure = { ts: "", err: "KeyError: 'x'", err_traceback: "Traceback: line 7" };
  await stage.server.command("RPUSH", `p:python:result:${id}`, JSON.stringify(failure));
  const error = await call;
  expect(error).toBeInstanceOf(HandlerFailedError);
  expect(error).toMatchObject({ message: "KeyError: 'x'", traceback: "Traceback: line 7" });
});

test("a kw dialect without a traceback writes none", () => {
  const dialect = new KwDialect("p", () => 0);
  const error = { code: -32000, message: "x", data: { name: "E" } };
  expect(dialect.encodeError("i", error, false)).not.toContain("err_traceback");
});
