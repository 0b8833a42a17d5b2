/**
 * Numbers the add calls of one process, so that a call whose reply was lost is applied once, even if its
 * jobs have run and are gone when the call is repeated. Each call under way has its own field in `adds`
 * (the producer's id and a slot) with the call's number. A slot is reused only when its call has
 * ended, so there are at most as many fields as concurrent calls.
 */
import { newToken } from "@ropeway/core/internal";
import type { NewJob, NotAdded, QueueStore } from "../store/queue-store.ts";

/** Sends the numbered add calls of one process to a queue. */
export class Producer {
  readonly #store: QueueStore;
  readonly #id = newToken();
  readonly #free: number[] = [];
  #slots = 0;
  #calls = 0;

  constructor(store: QueueStore) {
    this.#store = store;
  }

  /** Adds jobs, all or none if `whole` is true. Returns the jobs that were not added, by their index. */
  async add(
    jobs: readonly NewJob[],
    whole: boolean = false,
  ): Promise<ReadonlyMap<number, NotAdded>> {
    const slot = this.#free.pop() ?? this.#slots++;
    const producer = `${this.#id}.${slot}`;
    try {
      const outcome = await this.#store.add({ jobs, whole, producer, number: ++this.#calls });
      if (outcome.stoppedAt === undefined) return outcome.other;
      const all = new Map(outcome.other);
      for (let first = outcome.stoppedAt; first < jobs.length; ) {
        const rest = jobs.slice(first);
        const call = { jobs: rest, producer, number: ++this.#calls };
        const { other, stoppedAt = rest.length } = await this.#store.add(call);
        for (const [index, notAdded] of other) all.set(first + index, notAdded);
        first += stoppedAt;
      }
      return all;
    } finally {
      this.#free.push(slot);
    }
  }
}
