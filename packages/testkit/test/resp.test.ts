import fc from "fast-check";
import { expect, test } from "vitest";
import { ReplyError } from "../src/errors.ts";
import { encodeCommand, type Reply, ReplyDecoder } from "../src/resp.ts";

const { reply } = fc.letrec<{ reply: Reply }>((tie) => ({
  reply: fc.oneof(
    { maxDepth: 3 },
    fc.string(),
    fc.integer(),
    fc.constant(null),
    fc.stringMatching(/^[A-Z]{1,8} [a-z ]*$/).map((text) => new ReplyError(text)),
    fc.array(tie("reply"), { maxLength: 4 }),
  ),
}));

function encode(value: Reply): string {
  if (value === null) return "$-1\r\n";
  if (value instanceof ReplyError) return `-${value.message}\r\n`;
  if (typeof value === "number") return `:${value}\r\n`;
  if (typeof value === "string") return `$${Buffer.byteLength(value)}\r\n${value}\r\n`;
  return `*${value.length}\r\n${value.map(encode).join("")}`;
}

test("replies are the same wherever their bytes are cut", () => {
  fc.assert(
    fc.property(fc.array(reply), fc.integer({ min: 1, max: 9 }), (replies, size) => {
      const bytes = Buffer.from(replies.map(encode).join(""));
      const decoder = new ReplyDecoder();
      const decoded: Reply[] = [];
      for (let at = 0; at < bytes.length; at += size) {
        decoded.push(...decoder.push(bytes.subarray(at, at + size)));
      }
      expect(decoded).toEqual(replies);
    }),
  );
});

test("a command is written with its lengths in bytes", () => {
  const bytes = encodeCommand(["SET", "é", 1, Buffer.from([0xff])]).toString("latin1");
  expect(bytes).toBe("*4\r\n$3\r\nSET\r\n$2\r\n\xc3\xa9\r\n$1\r\n1\r\n$1\r\n\xff\r\n");
});

test("what is not a reply is refused", () => {
  expect(() => new ReplyDecoder().push(Buffer.from("HTTP/1.1 400\r\n"))).toThrow("not RESP2");
});
