/** The check of the first argument of everything that works on a store. */
import { requireMethods } from "@ropeway/core/internal";

/** Throws InvalidArgumentError unless the value is a store. */
export function requireStore(store: unknown): void {
  const made = "a store: openRedisStore(redis), or await openEtcdStore(...)";
  requireMethods(store, ["get", "txn", "watch"], { argument: "store", made });
}
