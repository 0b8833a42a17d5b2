/** A store whose transactions fail when a test says so. */
import { StoreUnavailableError } from "../src/errors.ts";
import type { Store, Transaction } from "../src/store/store.ts";

/** Lost: it never arrived. Unheard: it was made, but the response was lost. Late: made after the next call began. */
export type StoreFault = "lost" | "unheard" | "late";

/** The same store; `fault` decides about each transaction. */
export function faultyStore(
  store: Store,
  fault: (transaction: Transaction) => StoreFault | undefined,
): Store {
  let late: Transaction | undefined;
  const txn = async (transaction: Transaction) => {
    if (late !== undefined) await store.txn(late);
    late = undefined;
    const found = fault(transaction);
    if (found === undefined) return store.txn(transaction);
    if (found === "unheard") await store.txn(transaction);
    if (found === "late") late = transaction;
    throw new StoreUnavailableError(store.where, true, new Error("a fault of the test"));
  };
  return new Proxy(store, {
    get(target, name) {
      if (name === "txn") return txn;
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** Whether a transaction deletes a key. */
export function deletes(transaction: Transaction, key: string): boolean {
  return transaction.do.some((one) => one.op === "delete" && one.key === key);
}
