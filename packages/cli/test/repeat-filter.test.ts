import { expect, test } from "vitest";
import { RepeatFilter } from "../src/repeat-filter.ts";

const away = { err: { code: "NOT_CONNECTED" } };

test("while Redis is away each sentence is written once in ten minutes", () => {
  const filter = new RepeatFilter();
  expect(filter.passes(away, "the dispatcher met an error", 0)).toBe(true);
  expect(filter.passes(away, "the dispatcher met an error", 599_999)).toBe(false);
  expect(filter.passes(away, "the node has a problem", 1)).toBe(true);
  expect(filter.passes({ err: { code: "STORE_UNAVAILABLE" } }, "the node has a problem", 2)).toBe(
    true,
  );
  expect(filter.passes(away, "the dispatcher met an error", 600_000)).toBe(true);
});

test("requests, losses and every other error are always written", () => {
  const filter = new RepeatFilter();
  for (let n = 0; n < 3; n++) {
    expect(filter.passes({ ...away, requestId: "a.1" }, "request failed", n)).toBe(true);
    expect(filter.passes({ err: { code: "CONNECTION_LOST" } }, "connection lost", n)).toBe(true);
    expect(filter.passes({ err: new Error("boom") }, "x", n)).toBe(true);
    expect(filter.passes("a line", undefined, n)).toBe(true);
    expect(filter.passes(undefined, undefined, n)).toBe(true);
  }
});

test("it remembers a bounded number of sentences", () => {
  const filter = new RepeatFilter();
  for (let n = 0; n < 1_000; n++) expect(filter.passes(away, `sentence ${n}`, 0)).toBe(true);
  expect(filter.passes(away, "sentence 999", 0)).toBe(false);
  expect(filter.passes(away, "sentence 0", 0)).toBe(true);
});
