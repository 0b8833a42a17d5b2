import fc from "fast-check";
import { expect, test } from "vitest";
import { readDeadline, readHead, writeHead } from "../src/wire/head.ts";

const DEADLINE = 1_763_245_000_123;

test("a head is read back as it was written, whatever follows", () => {
  const text = `${writeHead(DEADLINE, "a-1")},"method":"x"}`;
  expect(readHead(text)).toEqual({
    deadline: DEADLINE,
    id: "a-1",
    replyTo: undefined,
    silent: false,
    end: text.indexOf(',"method"'),
  });
  expect(JSON.parse(text)).toEqual({ dl: DEADLINE, id: "a-1", method: "x" });
});

test("the reply list and both marks of a notification are read without parsing", () => {
  const head = writeHead(DEADLINE, "a-1");
  expect(readHead(`${head},"rt":"/api/t/reply/c","notification":true,"x":`)).toMatchObject({
    replyTo: "/api/t/reply/c",
    silent: true,
  });
  expect(readHead(`${head},"no_response":true,"kw":{}}`)).toMatchObject({ silent: true });
});

test("a call that does not begin with a deadline has no head", () => {
  for (const text of [
    '{"id":"a","method":"x"}',
    '{"dl":12,"id":"a"}',
    '{"dl":17632450001234,"id":"a"}',
    `{"dl":${DEADLINE},"id":""}`,
    `{"dl":${DEADLINE},"id":"a`,
    `{"dl":${DEADLINE},"id":"a\\"b"}`,
    `{"dl":${DEADLINE},"id":"a","rt":"never ends`,
    `{"dl":${DEADLINE},"id":"a","rt":"\\/api\\/t\\/reply\\/c"}`,
    "",
  ]) {
    expect(readHead(text), text).toBeUndefined();
  }
});

test("no text makes the reading of a head throw, and a head never contradicts the JSON", () => {
  const texts = fc.oneof(
    fc.string(),
    fc.string().map((tail) => `${writeHead(DEADLINE, "a")}${tail}`),
    fc.record({ dl: fc.integer(), id: fc.string(), rt: fc.string() }).map((m) => JSON.stringify(m)),
  );
  fc.assert(
    fc.property(texts, (text) => {
      const head = readHead(text);
      expect(head === undefined ? undefined : head.deadline).toBe(
        head === undefined ? undefined : readDeadline(text),
      );
      let parsed: { dl?: unknown; id?: unknown } | undefined;
      try {
        parsed = JSON.parse(text);
      } catch {
        return;
      }
      if (head === undefined || Object.keys(parsed ?? {}).length > 3) return;
      expect(head.id).toBe(parsed?.id);
    }),
    { seed: 7 },
  );
});
