import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as errors from "../src/errors.ts";

test("the reference lists every error of core with its code", () => {
  const page = readFileSync(new URL("../../../docs/reference/errors.md", import.meta.url), "utf8");
  const section = page.split(/^## /m).find((part) => part.startsWith("core\n")) ?? "";
  const documented = [...section.matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)].map((row) => row[2]);
  const thrown = Object.entries(errors)
    .filter(([name, value]) => /Error$/.test(name) && typeof value === "function")
    .map(([name]) => name)
    .filter((name) => name !== "RopewayError");
  expect(documented.sort()).toEqual(thrown.sort());
});

test("an error carries its code, the offending value and its cause", () => {
  const cause = new Error("boom");
  const lost = new errors.ConnectionLostError("host:1", cause);
  expect(lost).toMatchObject({ name: "ConnectionLostError", code: "CONNECTION_LOST", cause });
  expect(lost.message).toBe("the connection to host:1 was lost: boom");
  const option = new errors.InvalidOptionError("size", { a: 1 }, "small");
  expect(option.message).toBe('option size is {"a":1}, but must be small');
  expect(option.details).toEqual({ option: "size", value: { a: 1 }, allowed: "small" });
});

test("any thrown value has a reason, and long values are cut", () => {
  const cyclic: Record<string, unknown> = {};
  cyclic.self = cyclic;
  expect(errors.reasonOf(new AggregateError([new Error("refused")]))).toBe("refused");
  expect(errors.reasonOf("text")).toBe('"text"');
  const lookup = (code: string) =>
    Object.assign(new Error(`getaddrinfo ${code} old`), { code, hostname: "old" });
  expect(errors.reasonOf(lookup("ENOTFOUND"))).toBe('no host is named "old"');
  expect(errors.reasonOf(lookup("EAI_AGAIN"))).toBe(
    'the name server did not find the host "old" in time',
  );
  expect(errors.show(cyclic)).toBe("[object Object]");
  expect(errors.show("x".repeat(500))).toHaveLength(120);
});

test("a thrown value that throws when it is read has a reason too", () => {
  const itself = new AggregateError([]);
  itself.errors.push(itself);
  const refuse = () => {
    throw new Error("read");
  };
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  const odd = [
    itself,
    proxy,
    Object.defineProperty(new Error("x"), "message", { get: refuse }),
    new Proxy({}, { get: refuse, getPrototypeOf: refuse }),
  ];
  for (const one of odd) expect(errors.reasonOf(one)).toBe("an error that cannot be described");
  expect(errors.reasonOf(Object.assign(new Error("x"), { message: { a: 1 } }))).toBe('{"a":1}');
  expect(errors.reasonOf(Object.assign(new Error("x"), { message: 42 }))).toBe("42");
});

test("an error that crossed a wire is an instance of its class again", () => {
  const table = { INVALID_ARGUMENT: errors.InvalidArgumentError };
  const sent = new errors.InvalidArgumentError("size", -1, "positive");
  const { code, message, details } = JSON.parse(JSON.stringify({ ...sent, message: sent.message }));
  const back = errors.revive(table, { code, message, details });
  expect(back).toBeInstanceOf(errors.InvalidArgumentError);
  expect(back).toMatchObject({ name: "InvalidArgumentError", argument: "size", message });
  const unknown = errors.revive(table, { code: "constructor", message: "from elsewhere" });
  expect(unknown).toBeInstanceOf(errors.RopewayError);
  expect(unknown.code).toBe("constructor");
});
