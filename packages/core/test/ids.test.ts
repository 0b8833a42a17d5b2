import { expect, test } from "vitest";
import { IdSource, newToken, withoutDash } from "../src/ids.ts";

test("ids of one source and of many sources are all different", () => {
  const sources = Array.from({ length: 50 }, () => new IdSource());
  const ids = sources.flatMap((source) => Array.from({ length: 200 }, () => source.next()));
  expect(new Set(ids).size).toBe(10_000);
});

test("a token has 128 random bits and is safe in a URL", () => {
  expect(newToken()).toMatch(/^[\w-]{22}$/);
  expect(newToken()).not.toBe(newToken());
});

test("an id is never taken for an option of a command line", () => {
  expect(withoutDash("-2kpX")).toBe("A2kpX");
  expect(withoutDash("2kp-")).toBe("2kp-");
  const sources = Array.from({ length: 2_000 }, () => new IdSource().next());
  expect(sources.filter((id) => id.startsWith("-"))).toEqual([]);
});
