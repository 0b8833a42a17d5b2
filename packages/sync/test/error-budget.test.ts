import { expect, test } from "vitest";
import { type DiscardedRecord, ErrorBudget } from "../src/error-budget.ts";

const MIB = 1024 * 1024;

test("a write with a value or a key of the maximum size is recorded, with the beginning of the key", () => {
  const records: DiscardedRecord[] = [];
  const budget = new ErrorBudget(2, (record) => records.push(record));
  const longest = Buffer.allocUnsafeSlow(512 * MIB).fill("x", 0, MIB);
  budget.spend([Buffer.from("SET"), Buffer.from("k"), longest], 0, "refused");
  budget.spend([Buffer.from("SET"), longest, Buffer.from("v")], 1, "refused");
  expect(records[0]).toMatchObject({ command: "SET", key: "k", db: 0, error: "refused" });
  expect(records[1]).toMatchObject({ key: "x".repeat(64 * 1024), db: 1 });
});
