import { expect, test } from "vitest";
import { SyncTask } from "../src/task.ts";
import { verify } from "../src/verify/verify.ts";

const ends = { from: "redis://127.0.0.1:1", to: "redis://127.0.0.1:2" };

test.each<[string, unknown]>([
  ["filter.accept", { accept: ["l*"] }],
  ["filter.accept", { accept: "l*" }],
  ["filter.accept", { accept: null }],
  ["filter.accept.prefix", { accept: { prefix: ["l"] } }],
  ["filter.refuse.keys", { refuse: { keys: ["l"] } }],
  ["filter.accept.prefixes", { accept: { prefixes: "l" } }],
  ["filter.accept.patterns", { accept: { patterns: /l/ } }],
  ["filter.accept.patterns", { accept: { patterns: ["l"] } }],
  ["filter.acept", { acept: { prefixes: ["l"] } }],
  ["filter.refuseCommands", { refuseCommands: "DEL" }],
  ["filter.acceptCommands", { acceptCommands: [1] }],
  ["filter.combine", { combine: "xor" }],
])("a filter of the wrong shape is refused by its place: %s %j", async (option, filter) => {
  const refusal = { code: "INVALID_OPTION", details: { option } };
  const options = { ...ends, filter: filter as never };
  expect(() => new SyncTask(options)).toThrow(expect.objectContaining({ code: refusal.code }));
  await expect(verify(options)).rejects.toMatchObject(refusal);
});

test("a filter of the right shape is taken", () => {
  const filter = {
    accept: { prefixes: ["a"], globs: ["b*"], patterns: [/c/] },
    refuse: {},
    acceptCommands: ["set"],
    combine: "or",
  } as const;
  expect(() => new SyncTask({ ...ends, filter })).not.toThrow();
});
