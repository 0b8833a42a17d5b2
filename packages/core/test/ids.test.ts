import { expect, test } from "vitest";
import { IdSource, newToken } from "../src/ids.ts";

test("ids of one source and of many sources are all different", () => {
  const sources = Array.from({ length: 50 }, () => new IdSource());
  const ids = sources.flatMap((source) => Array.from({ length: 200 }, () => source.next()));
  expect(new Set(ids).size).toBe(10_000);
});

test("a token has 128 random bits and is safe in a URL", () => {
  expect(newToken()).toMatch(/^[\w-]{22}$/);
  expect(newToken()).not.toBe(newToken());
});
