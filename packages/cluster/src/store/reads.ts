/** Transactions that change nothing. */
import type { Transaction } from "./store.ts";

/** Whether a transaction only reads, so that a store may repeat it when no response came. */
export function onlyReads({ do: operations, else: otherwise = [] }: Transaction): boolean {
  return [...operations, ...otherwise].every(({ op }) => op === "get");
}
