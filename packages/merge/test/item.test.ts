// Heads are parsed in place: the result must be the same as splitting them into words.
import fc from "fast-check";
import { expect, test } from "vitest";
import { newItemId, readBatch, readItems } from "../src/queue/item.ts";

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
      expect(readBatch(text, bodies)).toEqual(items);
      expect(readBatch(text, [...bodies, body])).toBeUndefined();
      expect(readBatch(text, bodies.slice(1))).toBeUndefined();
    }),
  );
});

test("a head of several lines stays the head of one body", () => {
  const heads = ["y\ny 1 3 -", "c 3 3 -"];
  const items = readItems(heads, [Buffer.from("one"), Buffer.from("two"), Buffer.from("bare")]);
  expect(items.map(({ id }) => id)).toEqual(["y\ny", "c", ""]);
  expect(readBatch(heads.join("\n"), [Buffer.from("one"), Buffer.from("two")])).toBeUndefined();
});

test("the id of an item or a dead letter is never taken for an option of a command line", () => {
  const ids = Array.from({ length: 2_000 }, newItemId);
  expect(ids.filter((id) => id.startsWith("-"))).toEqual([]);
  expect(new Set(ids).size).toBe(2_000);
});
