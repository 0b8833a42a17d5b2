import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RespFormatError } from "../../src/errors.ts";
import { CommandReader } from "../../src/resp/command-reader.ts";
import { ErrorReply, PushReply, type Reply, ReplyReader } from "../../src/resp/reply-reader.ts";
import { RespWriter } from "../../src/resp/writer.ts";

function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes.length === 0 ? bytes.length : Math.max(1, sizes[i % sizes.length] as number);
    chunks.push(Buffer.from(bytes.subarray(at, at + size)));
    at += size;
  }
  return chunks;
}

function repliesOf(bytes: Buffer | string, sizes: readonly number[] = []): Reply[] {
  const reader = new ReplyReader();
  const replies: Reply[] = [];
  for (const chunk of cut(Buffer.from(bytes as string), sizes)) {
    reader.push(chunk);
    for (let reply = reader.next(); reply !== undefined; reply = reader.next()) replies.push(reply);
  }
  return replies;
}

const written = (commands: readonly (readonly Buffer[])[]) => {
  const writer = new RespWriter();
  for (const argv of commands) writer.command(argv);
  const { size } = writer;
  const all = Buffer.concat(writer.take());
  expect(size).toBe(all.length);
  return all;
};

describe("commands", () => {
  const argument = fc.oneof(
    fc.uint8Array({ maxLength: 40 }).map((b) => Buffer.from(b)),
    fc.constantFrom(0, 100, 16_383, 16_384, 20_000).map((n) => Buffer.alloc(n, 120)),
  );
  const command = fc.array(argument, { minLength: 1, maxLength: 8 });

  test("come out as they were written, in any chunking, with exact byte counts", () => {
    fc.assert(
      fc.property(
        fc.array(command, { maxLength: 10 }),
        fc.array(fc.constantFrom(1, 2, 9, 1000, 30_000), { minLength: 3 }),
        fc.nat(3),
        (commands, sizes, newlines) => {
          const stray = Buffer.from("\n".repeat(newlines));
          const wire = Buffer.concat(commands.flatMap((argv) => [stray, written([argv])]));
          const reader = new CommandReader();
          const found: Buffer[][] = [];
          let bytes = 0;
          for (const chunk of cut(wire, sizes)) {
            reader.push(chunk);
            for (let next = reader.next(); next !== undefined; next = reader.next()) {
              found.push([...next.argv]);
              expect(next.raw.equals(written([next.argv]))).toBe(true);
              bytes += next.raw.length;
              expect(reader.commandBytes).toBe(bytes);
            }
          }
          const same = found.every((argv, i) => argv.every((a, j) => commands[i]?.[j]?.equals(a)));
          expect([found.length, same]).toEqual([commands.length, true]);
          expect(reader.partial).toBe(false);
        },
      ),
    );
  });

  test.each([
    ["an inline command", "PING\r\n"],
    ["no arguments", "*0\r\n"],
    ["a negative count", "*-1\r\n"],
    ["a count without digits", "*\r\n"],
    ["no bulk string", "*1\r\n+OK\r\n"],
    ["an argument of wrong length", "*1\r\n$2\r\nabc\r\n"],
    ["a line that ends in LF", "*1\n$1\r\na\r\n"],
    ["too many arguments", "*99999999\r\n"],
    ["too large an argument", "*1\r\n$99999999999\r\n"],
  ])("%s is refused", (_, text) => {
    for (const sizes of [[1], []]) {
      const reader = new CommandReader();
      expect(() => {
        for (const chunk of cut(Buffer.from(text), sizes)) {
          reader.push(chunk);
          while (reader.next() !== undefined);
        }
      }).toThrow(RespFormatError);
    }
  });

  test("a length that is only claimed takes no memory", () => {
    const before = process.memoryUsage().arrayBuffers;
    const reader = new CommandReader();
    reader.push(Buffer.from("*1\r\n$500000000\r\nabc"));
    expect(reader.next()).toBeUndefined();
    reader.push(Buffer.from("def"));
    expect(reader.next()).toBeUndefined();
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(10_000_000);
    expect(reader.takeRest().toString()).toBe("*1\r\n$500000000\r\nabcdef");
  });
});

describe("replies", () => {
  const replies: [string, Reply][] = [
    ["+OK\r\n", "OK"],
    ["+FULLRESYNC abc 0\r\n", "FULLRESYNC abc 0"],
    [":42\r\n", 42],
    [":-7\r\n", -7],
    [":9223372036854775807\r\n", 9223372036854775807n],
    ["$5\r\nhello\r\n", Buffer.from("hello")],
    ["$0\r\n\r\n", Buffer.alloc(0)],
    ["$-1\r\n", null],
    ["*-1\r\n", null],
    ["*0\r\n", []],
    ["*2\r\n*1\r\n:1\r\n$1\r\na\r\n", [[1], Buffer.from("a")]],
    ["*2\r\n*0\r\n*1\r\n*1\r\n+x\r\n", [[], [["x"]]]],
    ["_\r\n", null],
    ["#t\r\n", true],
    ["#f\r\n", false],
    [",1.5\r\n", 1.5],
    [",-inf\r\n", Number.NEGATIVE_INFINITY],
    ["(123456789012345678901234567890\r\n", 123456789012345678901234567890n],
    ["=7\r\ntxt:abc\r\n", Buffer.from("abc")],
    ["%1\r\n+a\r\n:1\r\n", ["a", 1]],
    ["~2\r\n:1\r\n:2\r\n", [1, 2]],
    ["|1\r\n+ttl\r\n:9\r\n:5\r\n", 5],
    ["|0\r\n:5\r\n", 5],
  ];
  test.each(replies)("%j", (text, expected) => {
    for (const sizes of [[], [1], [2, 3]]) {
      expect(repliesOf(text, sizes)).toEqual([expected]);
      expect(repliesOf(text + text, sizes)).toEqual([expected, expected]);
    }
  });

  test("errors and pushes have their own classes", () => {
    const [error, blob, push] = repliesOf(
      "-WRONGTYPE x y\r\n!5\r\nERR z\r\n>2\r\n+message\r\n:1\r\n",
      [1],
    );
    expect(error).toEqual(new ErrorReply("WRONGTYPE x y"));
    expect((error as ErrorReply).prefix).toBe("WRONGTYPE");
    expect(blob).toEqual(new ErrorReply("ERR z"));
    expect(push).toEqual(new PushReply(["message", 1]));
  });

  test.each([
    "hello\r\n",
    ":x\r\n",
    ":\r\n",
    "$-2\r\n",
    "$3\r\nabcd\r\n",
    "+a\rb\r\n",
    "*-5\r\n",
    "(1x\r\n",
  ])("%j is refused", (text) => {
    expect(() => repliesOf(text)).toThrow(RespFormatError);
    expect(() => repliesOf(text, [1])).toThrow(RespFormatError);
  });

  test("are read many at a time as one by one, in any chunking", () => {
    const one = fc.constantFrom(
      "+OK\r\n",
      "+QUEUED\r\n",
      "+OKAY\r\n",
      "+Q\r\n",
      "-ERR no\r\n",
      ":0\r\n",
      "$2\r\nab\r\n",
    );
    const list = fc.array(one).map((items) => `*${items.length}\r\n${items.join("")}`);
    const nested = fc
      .array(fc.oneof(one, list))
      .map((items) => `*${items.length}\r\n${items.join("")}`);
    const wire = fc.array(fc.oneof(one, list, nested), { minLength: 1 });
    const sizes = fc.array(fc.constantFrom(1, 3, 9, 14, 1000), { minLength: 1 });
    fc.assert(
      fc.property(wire, sizes, fc.integer({ min: 1, max: 5 }), (texts, sizes, most) => {
        const bytes = Buffer.from(texts.join(""));
        const reader = new ReplyReader();
        const replies: Reply[] = [];
        for (const chunk of cut(bytes, sizes)) {
          reader.push(chunk);
          for (let got = most; got === most; ) {
            const before = replies.length;
            got = reader.read(replies, most);
            expect(replies.length).toBe(before + got);
          }
        }
        expect(replies).toEqual(texts.flatMap((text) => repliesOf(text)));
        expect(reader.offset).toBe(bytes.length);
      }),
    );
  });

  test("nesting and lines without end are bounded", () => {
    expect(() => repliesOf("*1\r\n".repeat(1000))).toThrow("levels");
    expect(() => repliesOf(`+${"x".repeat(100_000)}`)).toThrow("without end");
  });

  test("newlines before a reply can be skipped, and the rest taken over", () => {
    const reader = new ReplyReader();
    reader.push(Buffer.from("\n\n+OK\r\n$rest"));
    reader.skipNewlines();
    expect(reader.next()).toBe("OK");
    expect(reader.takeRest().toString()).toBe("$rest");
  });
});

test("a writer takes every kind of argument, and raw bytes", () => {
  const writer = new RespWriter();
  writer.command(["SET", Buffer.from([0, 255]), 42, -1n, "é", "x".repeat(20_000)]);
  writer.raw(Buffer.from("*1\r\n$4\r\nPING\r\n"));
  writer.header(1);
  writer.range(Buffer.from("xPINGx"), 1, 5);
  const reader = new CommandReader();
  reader.push(Buffer.concat(writer.take()));
  expect(reader.next()?.argv.map((a) => a.toString("latin1"))).toEqual([
    "SET",
    "\0\xff",
    "42",
    "-1",
    "Ã©",
    "x".repeat(20_000),
  ]);
  expect(reader.next()?.argv.map(String)).toEqual(["PING"]);
  expect(reader.next()?.argv.map(String)).toEqual(["PING"]);
  expect(writer.take()).toEqual([]);
});
