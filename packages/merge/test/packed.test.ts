// Batches travel as one packed string, and their heads are cut by hand: both must read what was written.
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readItems } from "../src/queue/item.ts";
import { PackedReader } from "../src/store/packed.ts";

const { redis } = await redisForFile();

const PACK = `local a, b = {}, {}
for i = 1, tonumber(ARGV[1]) do a[i] = ARGV[1 + i] end
for i = 2 + tonumber(ARGV[1]), #ARGV do b[#b + 1] = ARGV[i] end
return cmsgpack.pack(a, b)`;

const pack = (heads: readonly string[], bodies: readonly Buffer[]) =>
  redis.send<Buffer>(["EVAL", PACK, "0", String(heads.length), ...heads, ...bodies], {
    binary: true,
  });

test("lists of every length and elements of every length come back as they were", async () => {
  for (const count of [1, 15, 16, 70_000]) {
    const list = Array.from({ length: count }, (_, i) => `h${i}`);
    const read = new PackedReader(await pack(list, [Buffer.from([0, 255])]));
    expect(read.strings().join()).toBe(list.join());
    expect(read.buffers()).toEqual([Buffer.from([0, 255])]);
  }
  const bodies = [0, 31, 32, 255, 256, 65_535, 65_536, 200_000].map((size) =>
    Buffer.alloc(size, size % 251),
  );
  const read = new PackedReader(await pack(["h"], bodies));
  expect(read.strings()).toEqual(["h"]);
  expect(read.buffers()).toEqual(bodies);
});

test("bytes that are no list of strings are an error, not garbage", () => {
  const broken = [[], [0xc0], [0x91], [0x91, 0xa5, 1], [0x91, 0xc0], [0xdc, 0], [0x91, 0xdb, 0]];
  for (const bytes of broken) {
    expect(() => new PackedReader(Buffer.from(bytes)).buffers()).toThrow(RangeError);
  }
});

/** How heads are read, in the plainest words. */
function plainly(head: string) {
  const [id = "", pushedMs = "0", ...rest] = head.split(" ");
  if (/^(?:\d+|-)$/.test(rest[0] ?? "") && rest.length > 1) rest.shift();
  const [trace = "-", ...type] = rest;
  return {
    id,
    pushedAt: Number(pushedMs),
    contentType: type.length === 0 ? undefined : type.join(" "),
    traceparent: trace === "-" || trace === "" ? undefined : trace,
  };
}

test("heads are read word by word, also those of older versions and of other programs", () => {
  const word = fc.constantFrom("", "-", "id", "12", "0", "00-aa-bb-01", "text/plain;", "x=1");
  fc.assert(
    fc.property(fc.array(word, { maxLength: 7 }), (words) => {
      const head = words.join(" ");
      const body = Buffer.from("b");
      expect(readItems([head], [body])).toEqual([{ ...plainly(head), body }]);
    }),
  );
});
