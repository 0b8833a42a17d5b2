import { expect, test } from "vitest";
import { CommandReader } from "../../src/resp/command-reader.ts";
import { MsetWriter } from "../../src/resp/mset-writer.ts";
import { PagePool } from "../../src/resp/page.ts";

/** The commands of a writer that got these strings. */
function commandsOf(
  writer: MsetWriter,
  strings: readonly (readonly [string, string])[],
): string[][] {
  for (const [key, value] of strings) {
    // Inside larger buffers, as in a snapshot.
    const [keyBytes, bytes] = [Buffer.from(`<<${key}>`), Buffer.from(`<${value}>>>`)];
    writer.add({
      ...{ keyBytes, keyStart: 2, keyEnd: keyBytes.length - 1 },
      ...{ bytes, textStart: 1, rawEnd: bytes.length - 3 },
    });
  }
  const { size } = writer;
  const { commands, pieces } = writer.take();
  expect(pieces.reduce((sum, piece) => sum + piece.length, 0)).toBeLessThanOrEqual(size);
  const reader = new CommandReader();
  const found: string[][] = [];
  for (const piece of pieces) {
    reader.push(piece);
    for (let next = reader.next(); next !== undefined; next = reader.next())
      found.push(next.argv.map(String));
  }
  expect(reader.partial).toBe(false);
  expect(found).toHaveLength(commands);
  return found;
}

test.each([1, 2, 4, 5, 49, 50, 51, 55, 99, 100, 101, 1_000])(
  "%i strings arrive in whole commands of at most 50",
  (count) => {
    const strings = Array.from({ length: count }, (_, n) => [`key:${n}`, `v${n * 7}`] as const);
    const commands = commandsOf(new MsetWriter(new PagePool()), strings);
    expect(commands).toHaveLength(Math.ceil(count / 50));
    expect(commands.every(([name]) => name === "MSET")).toBe(true);
    expect(commands.flatMap(([, ...args]) => args)).toEqual(strings.flat());
  },
);

test("values of every length keep their bytes, over the ends of pages and with pages that were used before", () => {
  const pool = new PagePool();
  for (let round = 0; round < 3; round++) {
    const writer = new MsetWriter(pool);
    const strings = Array.from({ length: 400 }, (_, n) => {
      const length = n % 40 === 39 ? 15_000 + n : n;
      return [`k${round}-${n}`, String.fromCharCode(97 + (n % 26)).repeat(length)] as const;
    });
    const commands = commandsOf(writer, strings);
    expect(commands.flatMap(([, ...args]) => args)).toEqual(strings.flat());
    writer.release();
  }
});

test("strings after a take go to commands of their own", () => {
  const writer = new MsetWriter(new PagePool());
  expect(commandsOf(writer, [["a", "1"]])).toEqual([["MSET", "a", "1"]]);
  expect(commandsOf(writer, [["b", ""]])).toEqual([["MSET", "b", ""]]);
  expect(writer.take()).toEqual({ commands: 0, pieces: [] });
  expect(writer.pairs).toBe(2);
});
