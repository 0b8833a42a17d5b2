// Heads are parsed in place: the result must be the same as splitting them into words.
import fc from "fast-check";
import { expect, test } from "vitest";
import { newItemId, readBatch, readItems } from "../src/queue/item.ts";

const NUL = Buffer.alloc(1);
const join = (bodies: readonly Buffer[]) =>
  Buffer.concat(bodies.flatMap((body, i) => (i === 0 ? [body] : [NUL, body])));

/** Parses a head in the simplest way. */
function plainly(head: string) {
  const [id = "", pushedMs = "0", ...rest] = head.split(" ");
  if (/^(?:\d+|-)$/.test(rest[0] ?? "") && rest.length > 1) rest.shift();
  const [trace = "-", ...type] = rest;
  return {
    id,
    pushedAt: Number(pushedMs) || 0, // a word that is not a number is not a time
    contentType: type.length === 0 ? undefined : type.join(" "),
    traceparent: trace === "-" || trace === "" ? undefined : trace,
  };
}

test("heads are read word by word, also those of older versions and of other programs", () => {
  const word = fc.constantFrom("", "-", "id", "12", "0", "00-aa-bb-01", "text/plain;", "x=1");
  fc.assert(
    fc.property(fc.array(fc.array(word, { maxLength: 7 }), { minLength: 1 }), (lines) => {
      const heads = lines.map((words) => words.join(" "));
      const body = Buffer.from("b");
      const bodies = heads.map(() => body);
      const text = heads.join("\n");
      const items = heads.map((head) => ({ ...plainly(head), body }));
      expect(readItems(heads, bodies)).toEqual(items);
      expect(readBatch(text, bodies, heads.length)).toEqual(items);
      expect(readBatch(text, [...bodies, body], heads.length + 1)).toBeUndefined();
    }),
  );
});

test("a head of several lines stays the head of one body", () => {
  const heads = ["y\ny 1 3 -", "c 3 3 -"];
  const items = readItems(heads, [Buffer.from("one"), Buffer.from("two"), Buffer.from("bare")]);
  expect(items.map(({ id }) => id)).toEqual(["y\ny", "c", ""]);
  expect(readBatch(heads.join("\n"), [Buffer.from("one"), Buffer.from("two")], 2)).toBeUndefined();
});

test("bodies in one string are cut by the sizes in their heads", () => {
  const texts = fc.array(fc.string({ unit: "binary" }), { minLength: 1 });
  fc.assert(
    fc.property(texts, (all) => {
      const bodies = all.map((text) => Buffer.from(text));
      const heads = bodies.map(({ length }, i) => `i${i} 1 ${length} -`);
      const joined = join(bodies);
      const items = readBatch(heads.join("\n"), joined, all.length);
      expect(items?.map(({ body }) => body)).toEqual(bodies);
      expect(items).toEqual(readItems(heads, bodies));
      expect(
        readBatch(heads.join("\n"), Buffer.concat([joined, joined, NUL]), all.length),
      ).toBeUndefined();
    }),
  );
});

test("bodies in one string are not cut at places where no body ends", () => {
  const heads = (...sizes: number[]) => sizes.map((size, i) => `i${i} 1 ${size} -`).join("\n");
  const joined = join(["22", "1"].map((text) => Buffer.from(text)));
  expect(readBatch(heads(2, 1), joined, 2)).toHaveLength(2);
  expect(readBatch(heads(1, 2), joined, 2)).toBeUndefined();
  expect(readBatch(heads(4, 0), joined, 2)).toBeUndefined();
});

test.each(["a 1 - -", "a 1 -", "a 1 4 -", "a 1 2 -\nb 1 1 -"])(
  "bodies in one string do not fit %j",
  (head) => {
    expect(readBatch(head, Buffer.from("one"), 1)).toBeUndefined();
  },
);

test("the id of an item or a dead letter is never taken for an option of a command line", () => {
  const ids = Array.from({ length: 2_000 }, newItemId);
  expect(ids.filter((id) => id.startsWith("-"))).toEqual([]);
  expect(new Set(ids).size).toBe(2_000);
});
