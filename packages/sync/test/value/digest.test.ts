import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { digestOf } from "../../src/value/digest.ts";
import type { ValuePart } from "../../src/value/part.ts";

const b = (text: string) => Buffer.from(text);
const set = (...members: string[]): ValuePart => ({ type: "set", members: members.map(b) });
const list = (...elements: string[]): ValuePart => ({ type: "list", elements: elements.map(b) });
const hash = (pairs: Record<string, string>, expiresAtMs?: number[]): ValuePart => ({
  type: "hash",
  fields: Object.keys(pairs).map(b),
  values: Object.values(pairs).map(b),
  expiresAtMs,
});
const zset = (...scored: [string, number][]): ValuePart => ({
  type: "zset",
  members: scored.map(([m]) => b(m)),
  scores: scored.map(([, s]) => s),
});

describe("equal values have equal digests", () => {
  test.each<[string, ValuePart[], ValuePart[]]>([
    ["sets in another order", [set("a", "b", "c")], [set("c"), set("a", "b")]],
    ["lists cut in parts", [list("a", "b")], [list("a"), list("b")]],
    ["hashes in another order", [hash({ a: "1", b: "2" })], [hash({ b: "2", a: "1" })]],
    ["fields without expiry", [hash({ a: "1" })], [hash({ a: "1" }, [0])]],
    ["scores of zero", [zset(["a", 0])], [zset(["a", -0])]],
    [
      "strings cut in parts",
      [{ type: "string", bytes: b("abc") }],
      ["a", "bc"].map((t) => ({ type: "string", bytes: b(t) })),
    ],
  ])("%s", (_, one, other) => {
    expect(digestOf(one)).toBe(digestOf(other));
  });

  test("in any order of members", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.string(), { minLength: 1 }), fc.nat(), (members, turn) => {
        const at = turn % members.length;
        const turned = [...members.slice(at), ...members.slice(0, at)];
        expect(digestOf([set(...members)])).toBe(digestOf([set(...turned)]));
      }),
    );
  });
});

describe("different values have different digests", () => {
  const id = (ms: bigint) => ({ ms, seq: 0n });
  const info: ValuePart = {
    type: "stream",
    piece: "info",
    length: 0,
    lastId: id(1n),
    added: undefined,
  };
  const group = (name: string): ValuePart => ({
    type: "stream",
    piece: "group",
    name: b(name),
    lastId: id(0n),
    entriesRead: undefined,
  });
  const consumer = (name: string): ValuePart => ({
    type: "stream",
    piece: "consumer",
    name: b(name),
    seenAtMs: 5,
    activeAtMs: undefined,
  });
  const owned: ValuePart = { type: "stream", piece: "owned", ids: [id(1n)] };

  test.each<[string, ValuePart[], ValuePart[]]>([
    ["lists in another order", [list("a", "b")], [list("b", "a")]],
    ["lists cut elsewhere", [list("ab", "c")], [list("a", "bc")]],
    ["a member more", [set("a")], [set("a", "b")]],
    ["a member twice", [set("a", "a", "b")], [set("a", "b", "b")]],
    ["field and value swapped", [hash({ a: "b" })], [hash({ b: "a" })]],
    ["values exchanged", [hash({ a: "1", b: "2" })], [hash({ a: "2", b: "1" })]],
    ["another expiry", [hash({ a: "1" }, [5])], [hash({ a: "1" }, [6])]],
    ["another score", [zset(["a", 1])], [zset(["a", 1.0000000000000002])]],
    ["types", [set("a")], [list("a")]],
    [
      "the owner of a pending entry",
      [info, group("g"), consumer("x"), owned, consumer("y")],
      [info, group("g"), consumer("x"), consumer("y"), owned],
    ],
    ["a group", [info, group("g")], [info, group("h")]],
    ["nothing and a string", [], [{ type: "string", bytes: b("") }]],
  ])("%s", (_, one, other) => {
    expect(digestOf(one)).not.toBe(digestOf(other));
  });
});
