import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { type Page, PagePool } from "../../src/resp/page.ts";

setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");

/** Copies a short piece of a large buffer, and forgets the buffer. */
function copyFrom(page: Page): WeakRef<Buffer> {
  const large = Buffer.alloc(1024 * 1024, "x");
  page.bulk(large, 0, 20);
  return new WeakRef(large);
}

test("a page that nobody uses keeps no buffer in memory that was copied from", async () => {
  const pool = new PagePool();
  const page = pool.take(0);
  const large = copyFrom(page);
  pool.give(page);
  await eventually(() => {
    collect();
    expect(large.deref()).toBeUndefined();
  });
  expect(pool.take(0)).toBe(page);
});
