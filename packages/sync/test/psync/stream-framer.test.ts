import fc from "fast-check";
import { expect, test } from "vitest";
import { RespFormatError } from "../../src/errors.ts";
import { StreamFramer } from "../../src/psync/stream-framer.ts";
import { encodeCommand } from "../../src/wire/encode.ts";

test("newlines between commands are removed, newlines inside are kept, in chunks of any size", () => {
  const command = fc.array(fc.uint8Array({ maxLength: 20 }), { minLength: 1, maxLength: 4 });
  const item = fc.oneof(command, fc.constant("newline" as const));
  fc.assert(
    fc.property(
      fc.array(item, { maxLength: 20 }),
      fc.integer({ min: 1, max: 50 }),
      (items, size) => {
        const encoded = items.map((each) =>
          each === "newline"
            ? Buffer.from("\n")
            : encodeCommand(each.map((word) => Buffer.from(word))),
        );
        const commands = encoded.filter((_, i) => items[i] !== "newline");
        const bytes = Buffer.concat(encoded);
        const framer = new StreamFramer();
        const cleaned: Buffer[] = [];
        for (let at = 0; at < bytes.length; at += size) {
          cleaned.push(Buffer.from(framer.clean(bytes.subarray(at, at + size))));
        }
        expect(Buffer.concat(cleaned)).toEqual(Buffer.concat(commands));
        expect(framer.between).toBe(true);
      },
    ),
  );
});

test("bytes that are no commands are an error with their offset", () => {
  const framer = new StreamFramer();
  expect(() => framer.clean(Buffer.from("*1\r\n:3\r\n"))).toThrow(RespFormatError);
});
