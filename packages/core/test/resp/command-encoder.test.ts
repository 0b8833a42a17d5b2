import { PassThrough } from "node:stream";
import fc from "fast-check";
import { expect, test } from "vitest";
import { CommandEncoder } from "../../src/resp/command-encoder.ts";

const argument = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.string({ unit: "grapheme" }),
  fc.uint8Array({ maxLength: 50 }).map((bytes) => Buffer.from(bytes)),
  fc.constantFrom(Buffer.alloc(5_000, 0xe9), "é".repeat(5_000), "a".repeat(9_000), "\ud800"),
);
const commands = fc.array(fc.array(argument, { minLength: 1, maxLength: 8 }));

test("commands are arrays of bulk strings in UTF-8, whatever their arguments", () => {
  fc.assert(
    fc.property(commands, fc.integer({ min: 1, max: 4 }), (all, perFlush) => {
      const socket = new PassThrough({ highWaterMark: 1 << 26 });
      const encoder = new CommandEncoder();
      for (const [index, args] of all.entries()) {
        encoder.add(args);
        if (index % perFlush === 0) encoder.writeTo(socket);
      }
      encoder.writeTo(socket);
      const written: Buffer = socket.read() ?? Buffer.alloc(0);
      expect(written.equals(Buffer.concat(all.map(encodeCommand)))).toBe(true);
    }),
  );
});

test("an argument of another type is refused and leaves nothing behind", () => {
  const socket = new PassThrough();
  const encoder = new CommandEncoder();
  encoder.add(["PING"]);
  expect(() => encoder.add(["SET", "k", 1 as unknown as string])).toThrow(TypeError);
  expect(() => encoder.add(["SET", Buffer.alloc(5_000), undefined as unknown as string])).toThrow(
    TypeError,
  );
  // A server does not reply to an empty command, so each later reply would go to the wrong one.
  expect(() => encoder.add([])).toThrow(TypeError);
  expect(() => encoder.add(new Set(["PING"]) as unknown as string[])).toThrow(TypeError);
  encoder.writeTo(socket);
  encoder.writeTo(socket);
  expect(String(socket.read())).toBe("*1\r\n$4\r\nPING\r\n");
});

test("megabytes of commands are written whole", () => {
  const socket = new PassThrough({ highWaterMark: 1 << 26 });
  const encoder = new CommandEncoder();
  const args = ["SET", "key", "v".repeat(100_000)];
  for (let i = 0; i < 50; i++) encoder.add(args);
  encoder.writeTo(socket);
  const written: Buffer = socket.read();
  expect(written.equals(Buffer.concat(Array(50).fill(encodeCommand(args))))).toBe(true);
});

function encodeCommand(args: readonly (string | Buffer)[]): Buffer {
  const parts = args.flatMap((arg) => {
    const bytes = Buffer.from(arg as string);
    return [Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from("\r\n")];
  });
  return Buffer.concat([Buffer.from(`*${args.length}\r\n`), ...parts]);
}
