import fc from "fast-check";
import { expect, test, vi } from "vitest";
import {
  ProtocolError,
  type RawReply,
  ReplyDecoder,
  ReplyError,
} from "../../src/resp/reply-decoder.ts";

// A string of Node's own limit, 512 MiB, would take too much memory here.
vi.mock("node:buffer", async (original) => ({
  ...(await original<typeof import("node:buffer")>()),
  constants: { MAX_STRING_LENGTH: 1_500_000 },
}));

const text = fc.string({ unit: "binary" }).map((string) => string.replaceAll(/[\r\n]/g, ""));
const reply = fc.letrec<{ reply: Value }>((tie) => ({
  reply: fc.oneof(
    { maxDepth: 4, depthSize: "small" },
    fc.record({ kind: fc.constant("bulk" as const), bytes: fc.uint8Array({ maxLength: 40 }) }),
    fc.record({ kind: fc.constant("line" as const), text }),
    fc.record({ kind: fc.constant("error" as const), text }),
    fc.record({ kind: fc.constant("number" as const), value: fc.maxSafeInteger() }),
    fc.record({ kind: fc.constantFrom("no string" as const, "no array" as const) }),
    fc.record({
      kind: fc.constant("array" as const),
      elements: fc.array(tie("reply"), { maxLength: 6 }),
    }),
  ),
})).reply;

type Value =
  | { readonly kind: "bulk"; readonly bytes: Uint8Array }
  | { readonly kind: "line" | "error"; readonly text: string }
  | { readonly kind: "number"; readonly value: number }
  | { readonly kind: "no string" | "no array" }
  | { readonly kind: "array"; readonly elements: readonly Value[] };

test("replies are the same in chunks of any size", () => {
  const chunkSizes = fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 });
  fc.assert(
    fc.property(fc.array(reply), chunkSizes, fc.boolean(), (values, sizes, binary) => {
      const bytes = Buffer.concat(values.map(encoded));
      expect(decoded(chunksOf(bytes, sizes), binary)).toEqual(
        values.map((value) => expected(value, binary)),
      );
    }),
  );
});

test("a large reply is not read again with each chunk", () => {
  const elements = Array.from({ length: 20_000 }, (_, index) => `element ${index}`);
  const bulks = elements.map((each) => `$${each.length}\r\n${each}\r\n`).join("");
  const huge = "x".repeat(1_000_000);
  const bytes = Buffer.from(
    `*3\r\n*${elements.length}\r\n${bulks}$${huge.length}\r\n${huge}\r\n+${huge}${huge}\r\n`,
  );
  const copied = { bytes: 0 };
  const concat = Buffer.concat;
  Buffer.concat = (list, length) => {
    copied.bytes += length ?? 0;
    return concat(list, length);
  };
  try {
    expect(decoded(chunksOf(bytes, [100]), false)).toEqual([[elements, huge, huge + huge]]);
  } finally {
    Buffer.concat = concat;
  }
  expect(copied.bytes).toBeLessThan(3 * bytes.length);
});

test("each reply decides whether its strings are bytes", () => {
  const replies: RawReply[] = [];
  const decoder = new ReplyDecoder({
    isBinary: () => replies.length % 2 === 1,
    receive: (value) => replies.push(value),
  });
  decoder.push(Buffer.from("$2\r\n\xff\xfe\r\n*2\r\n$1\r\na\r\n+b\r\n$1\r\na\r\n", "latin1"));
  expect(replies).toEqual(["\ufffd\ufffd", [Buffer.from("a"), "b"], "a"]);
});

test("a reply that began with strings has strings to its end", () => {
  const replies: RawReply[] = [];
  let binary = false;
  const decoder = new ReplyDecoder({
    isBinary: () => binary,
    receive: (value) => replies.push(value),
  });
  decoder.push(Buffer.from("*2\r\n$1\r\na\r\n"));
  binary = true;
  decoder.push(Buffer.from("$1\r\nb\r\n$1\r\nc\r\n"));
  expect(replies).toEqual([["a", "b"], Buffer.from("c")]);
});

test.each([
  ["HTTP/1.1 400 Bad Request\r\n"],
  ["$3\r\nabcd\r\n"],
  ["$\r\nabc\r\n"],
  [":1x\r\n"],
  ["*1\r\n%1\r\n"],
  ["+OK\r+OK\r\n"],
  [`$${"1".repeat(100)}`],
])("%.20j is not RESP", (bytes) => {
  expect(() => decoded([Buffer.from(bytes)], false)).toThrow(ProtocolError);
});

test("a reply that is too long for a string is an error of its own command only", () => {
  const long = `$2000000\r\n${"x".repeat(2_000_000)}\r\n`;
  const bytes = [Buffer.from(`*2\r\n${long}+ok\r\n`)];
  expect(decoded(bytes, false)).toEqual([[expect.any(ReplyError), "ok"]]);
  const [reply] = decoded(bytes, true) as [Buffer, string][];
  expect([reply?.[0].length, reply?.[1]]).toEqual([2_000_000, "ok"]);
});

test("a line without an end is not kept for ever", () => {
  const line = [Buffer.from("+"), ...Array<Buffer>(100).fill(Buffer.alloc(1_000_000, "x"))];
  expect(() => decoded(line, false)).toThrow(ProtocolError);
});

function decoded(chunks: readonly Buffer[], binary: boolean): RawReply[] {
  const replies: RawReply[] = [];
  const decoder = new ReplyDecoder({
    isBinary: () => binary,
    receive: (value) => replies.push(value),
  });
  for (const chunk of chunks) decoder.push(chunk);
  return replies;
}

function chunksOf(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const size = sizes[chunks.length % sizes.length] as number;
    chunks.push(bytes.subarray(at, at + size));
    at += size;
  }
  return chunks;
}

function encoded(value: Value): Buffer {
  switch (value.kind) {
    case "bulk":
      return Buffer.concat([
        Buffer.from(`$${value.bytes.length}\r\n`),
        value.bytes,
        Buffer.from("\r\n"),
      ]);
    case "line":
      return Buffer.from(`+${value.text}\r\n`);
    case "error":
      return Buffer.from(`-${value.text}\r\n`);
    case "number":
      return Buffer.from(`:${value.value}\r\n`);
    case "no string":
      return Buffer.from("$-1\r\n");
    case "no array":
      return Buffer.from("*-1\r\n");
    case "array":
      return Buffer.concat([
        Buffer.from(`*${value.elements.length}\r\n`),
        ...value.elements.map(encoded),
      ]);
  }
}

function expected(value: Value, binary: boolean): RawReply {
  switch (value.kind) {
    case "bulk":
      return binary ? Buffer.from(value.bytes) : Buffer.from(value.bytes).toString();
    case "line":
      return Buffer.from(value.text).toString();
    case "error":
      return new ReplyError(Buffer.from(value.text).toString());
    case "number":
      return value.value;
    case "array":
      return value.elements.map((each) => expected(each, binary));
    default:
      return null;
  }
}
