/**
 * Ids that are unique in a cluster without a lock for each: every process takes one seed from the store,
 * and counts from there.
 *
 *   task_ 7 _ 1791000000000 _ 1
 *         |   |               '-- natural numbers from 1, per process
 *         |   '------------------ this process's clock, ms
 *         '---------------------- the seed: taken by compare-and-swap, so no two processes share it
 */
import { type Clock, localClock } from "@ropeway/core";
import { keys } from "./keys.ts";
import { optimistically, unchanged } from "./record.ts";
import type { Store } from "./store/store.ts";

/** Makes the ids of one process. */
export class ClusterIds {
  readonly #store: Store;
  readonly #clock: Clock;
  #seed: Promise<string> | undefined;
  #count = 0;

  constructor(store: Store, clock: Clock = localClock) {
    this.#store = store;
    this.#clock = clock;
  }

  async next(kind: "task" | "group"): Promise<string> {
    this.#seed ??= takeSeed(this.#store);
    const taking = this.#seed;
    try {
      const seed = await taking;
      this.#count += 1;
      return `${kind}_${seed}_${Math.floor(this.#clock.now())}_${this.#count}`;
    } catch (error) {
      if (this.#seed === taking) this.#seed = undefined;
      throw error;
    }
  }
}

/** Takes the present seed and leaves the next one. A lost response costs a number, nothing else. */
function takeSeed(store: Store): Promise<string> {
  return optimistically(store, "the id seed", async () => {
    const entry = await store.get(keys.idSeed);
    const seed = /^\d+$/.test(entry?.value ?? "") ? BigInt(entry?.value ?? 1) : 1n;
    return {
      if: [unchanged(keys.idSeed, entry)],
      do: [{ op: "put", key: keys.idSeed, value: String(seed + 1n) }],
      result: String(seed),
    };
  });
}
