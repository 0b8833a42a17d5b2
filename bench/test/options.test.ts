import { expect, test } from "vitest";
import { parseOptions } from "../src/options.ts";

test("without options a run has five rounds of all scenarios", () => {
  expect(parseOptions(["core"])).toEqual({
    name: "core",
    quick: false,
    rounds: 5,
    payload: undefined,
    peers: undefined,
    only: undefined,
    json: false,
    publish: false,
  });
});

test("--peers takes a list of names or none", () => {
  expect(parseOptions(["rpc", "--peers", "nest,moleculer"]).peers).toEqual(["nest", "moleculer"]);
  expect(parseOptions(["rpc", "--peers", "none"]).peers).toEqual([]);
});

test("fewer than five rounds, a fractional payload and unknown options are refused", () => {
  expect(() => parseOptions(["core", "--rounds", "4"])).toThrow("at least 5, not 4");
  expect(() => parseOptions(["core", "--payload", "1.5"])).toThrow("at least 1, not 1.5");
  expect(() => parseOptions(["core", "--fast"])).toThrow("--fast");
  expect(() => parseOptions(["core", "rpc"])).toThrow("one bench at a time");
});
