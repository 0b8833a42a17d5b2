/**
 * Numbers the add calls of one process, so that a call whose reply was lost is applied once even if its
 * jobs have run and are gone when it is sent again. Each call under way has a field of its own in `adds`
 * (the producer's id and a slot) with the call's number. A slot is used again only when its call has
 * ended, so there are as many fields as calls at a time.
 */
import { newToken } from "@ropeway/core/internal";
import type { NewJob, NotAdded, QueueStore } from "../store/queue-store.ts";

/** One process's way of adding to a queue. */
export class Producer {
  readonly #store: QueueStore;
  readonly #id = newToken();
  readonly #free: number[] = [];
  #slots = 0;
  #calls = 0;

  constructor(store: QueueStore) {
    this.#store = store;
  }

  /** Adds jobs, all or none if `whole`; says which were not added, by their index. */
  async add(
    jobs: readonly NewJob[],
    whole: boolean = false,
  ): Promise<ReadonlyMap<number, NotAdded>> {
    const slot = this.#free.pop() ?? this.#slots++;
    this.#calls += 1;
    const call = { jobs, whole, producer: `${this.#id}.${slot}`, number: this.#calls };
    try {
      return await this.#store.add(call);
    } finally {
      this.#free.push(slot);
    }
  }
}
