import fc from "fast-check";
import { expect, test } from "vitest";
import { checkPrefix, hashTag, slotOf, unitPrefix } from "../src/keys.ts";

const name = fc.string({ minLength: 1 });

test("slots are those of Redis Cluster", () => {
  expect(slotOf("123456789")).toBe(12739); // the specification's own example
  expect(slotOf("{user1000}.following")).toBe(slotOf("{user1000}.followers"));
  expect(slotOf("foo{}{bar}")).not.toBe(slotOf("bar"));
  expect(slotOf("foo{{bar}}zap")).toBe(slotOf("{bar"));
});

test("all keys of a unit share a slot, whatever its name", () => {
  fc.assert(
    fc.property(name, fc.string(), fc.boolean(), (unit, suffix, tagged) => {
      const prefix = unitPrefix(tagged ? "{shop}:jobs" : "jobs", unit);
      expect(slotOf(`${prefix}:${suffix}`)).toBe(slotOf(`${prefix}:other`));
    }),
  );
});

test("no two names meet in one key", () => {
  fc.assert(
    fc.property(name, name, (a, b) => {
      if (a !== b) expect(unitPrefix("p", a)).not.toBe(unitPrefix("p", b));
    }),
  );
  expect(unitPrefix("p", "{a}")).toBe("p:{%7Ba%7D}");
  expect(unitPrefix("{shop}", "a")).toBe("{shop}:a");
});

test.each(["", "a{b", "a}b", "a{}b"])("the prefix %j is refused", (prefix) => {
  expect(() => checkPrefix(prefix)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
});

test("a hash tag is what stands in the first braces", () => {
  expect(hashTag("a{b}c{d}")).toBe("b");
  expect(hashTag("abc")).toBeUndefined();
});
