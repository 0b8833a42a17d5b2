/** A store that holds transactions back as long as a test wants. */
import type { Store, Transaction } from "../src/store/store.ts";

/** The same store; `before` is awaited before each transaction, and `after` before its response. */
export function gatedStore(
  store: Store,
  before: (transaction: Transaction) => Promise<void>,
  after: () => Promise<void> = async () => {},
): Store {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      if (name !== "txn") return value.bind(target);
      return async (transaction: Transaction) => {
        await before(transaction);
        const result = await target.txn(transaction);
        await after();
        return result;
      };
    },
  });
}
