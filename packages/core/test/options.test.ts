import { expect, test } from "vitest";
import {
  closest,
  flag,
  integer,
  milliseconds,
  oneOf,
  resolveOptions,
  text,
} from "../src/options.ts";

interface Sample {
  readonly concurrency?: number;
  readonly leaseMs?: number;
  readonly mode?: "fast" | "safe";
  readonly name?: string;
  readonly eager?: boolean;
}

const table = {
  concurrency: { default: 1, rule: integer(1, 1000) },
  leaseMs: { default: 30_000, rule: milliseconds(10) },
  mode: { default: "safe", rule: oneOf("fast", "safe") },
  name: { default: "x", rule: text },
  eager: { default: false, rule: flag },
} as const;

const resolve = (given?: object) => resolveOptions<Sample>(table, given as Sample);

test("what is not given has its default, also when it is given as undefined", () => {
  expect(resolve({ mode: "fast", leaseMs: undefined })).toEqual({
    concurrency: 1,
    leaseMs: 30_000,
    mode: "fast",
    name: "x",
    eager: false,
  });
});

test.each([
  [{ concurrency: 0 }, "option concurrency is 0, but must be a whole number from 1 to 1000"],
  [{ concurrency: 1.5 }, "whole number"],
  [{ leaseMs: Number.NaN }, "option leaseMs is NaN"],
  [{ mode: "slow" }, 'option mode is "slow", but must be one of fast, safe'],
  [{ name: "" }, "non-empty string"],
  [{ eager: 1 }, "true or false"],
  [{ concurency: 2 }, "did you mean concurrency?"],
  [{ __proto__x: 2 }, "known options"],
])("%j is refused with the option, the value and what is allowed", (given, sentence) => {
  expect(() => resolve(given)).toThrow(sentence);
});

test("a name that is far from every other is not guessed", () => {
  expect(closest("banana", ["concurrency", "mode"])).toBeUndefined();
  expect(closest("dotcor", ["doctor", "config"])).toBe("doctor");
});
