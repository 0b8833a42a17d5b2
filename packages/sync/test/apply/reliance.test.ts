import { expect, test } from "vitest";
import { doubtful, touchesOf } from "../../src/apply/reliance.ts";

/** The keys in doubt; keys without a lifetime stay for ever. */
function doubts(
  commands: string[],
  lifetimes: Record<string, number> = {},
  known = new Set<string>(),
) {
  const notes = commands.map((line) => ({
    argv: line.split(" ").map((word) => Buffer.from(word)),
    db: 0,
  }));
  const at = { lifetimes: new Map(Object.entries(lifetimes)), known, nowMs: 1e6, marginMs: 1e4 };
  return [...doubtful(touchesOf(notes), at)].sort();
}

test.each([
  [
    "a key that is missing or about to expire",
    ["INCR a", "INCR b", "INCR c"],
    { "0:a": -2, "0:b": 9 },
    ["0:a", "0:b"],
  ],
  ["all keys of a command that reads one", ["RENAME a b"], { "0:a": -2 }, ["0:a", "0:b"]],
  ["what it was copied to", ["COPY a b", "COPY b c"], { "0:a": -2 }, ["0:a", "0:b", "0:c"]],
  ["both databases", ["MOVE a 3"], { "0:a": -2 }, ["0:a", "3:a"]],
  [
    "not one that is written as a whole",
    ["SET a 1", "DEL b", "INCR a", "INCR b"],
    { "0:a": -2, "0:b": -2 },
    [],
  ],
  ["one that is written on a condition", ["SET a 1 XX"], { "0:a": -2 }, ["0:a"]],
  ["one whose expiry in the batch is over", ["SET a 1 PXAT 5", "PERSIST a"], {}, ["0:a"]],
  ["not one whose expiry is far", ["SET a 1 PXAT 9000000", "PERSIST a"], {}, []],
] as const)("in doubt: %s", (...[, commands, lifetimes, expected]) => {
  expect(doubts([...commands], lifetimes)).toEqual(expected);
});

test("a key in doubt passes that on, also to the other database of a SWAPDB", () => {
  expect(doubts(["COPY a b", "SWAPDB 0 2"], {}, new Set(["0:a"]))).toEqual(["0:b", "2:a", "2:b"]);
});
