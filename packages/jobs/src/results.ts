/**
 * Waiting for the end of jobs. Whoever waits marks the job in Redis in the same step in which it looks
 * at it, after it has subscribed: the end cannot fall between the two. A subscription that was
 * interrupted looks again at everything it waits for.
 */
import {
  type Deferred,
  deferred,
  type Subscriber,
  type WaitBounds,
  within,
} from "@ropeway/core/internal";
import { JobFailedError, type JobFailure, JobNotFoundError, JobsClosedError } from "./errors.ts";
import { viewOf } from "./job-view.ts";
import type { QueueStore } from "./store.ts";

/** The outcomes somebody in this process waits for. */
export class Results {
  readonly #store: QueueStore;
  readonly #waiting = new Map<string, Set<Deferred<unknown>>>();
  #subscriber: Promise<Subscriber> | undefined;

  constructor(store: QueueStore) {
    this.#store = store;
  }

  /** The job's result; JobFailedError if it failed, JobNotFoundError if it is unknown or gone. */
  async of(id: string, bounds: WaitBounds = {}): Promise<unknown> {
    const waiter = deferred<unknown>();
    waiter.promise.catch(() => {}); // the bound may come first
    const waiters = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, waiters.add(waiter));
    try {
      return await within(this.#await(id, waiter), { what: `job ${id}`, ...bounds });
    } finally {
      waiters.delete(waiter);
      if (waiters.size === 0) this.#waiting.delete(id);
    }
  }

  async close(): Promise<void> {
    for (const waiters of this.#waiting.values()) {
      for (const waiter of waiters) waiter.reject(new JobsClosedError("the queue"));
    }
    await (await this.#subscriber)?.close();
  }

  async #await(id: string, waiter: Deferred<unknown>): Promise<unknown> {
    this.#subscriber ??= this.#subscribe();
    await this.#subscriber;
    await this.#look(id);
    return waiter.promise;
  }

  async #subscribe(): Promise<Subscriber> {
    const { redis, keys } = this.#store;
    const subscriber = await redis.subscriber("jobs-results");
    subscriber.onGap(() => {
      for (const id of this.#waiting.keys()) void this.#look(id);
    });
    await subscriber.subscribe(keys.results, (message) => {
      const id = message.toString();
      if (this.#waiting.has(id)) void this.#look(id);
    });
    return subscriber;
  }

  async #look(id: string): Promise<void> {
    try {
      const raw = await this.#store.inspect(id, true);
      if (raw === undefined) throw new JobNotFoundError(this.#store.name, id);
      const view = viewOf(raw);
      if (view.state === "failed") throw new JobFailedError(id, view.failure as JobFailure);
      if (view.state !== "completed") return;
      for (const waiter of this.#waiting.get(id) ?? []) waiter.resolve(view.result);
    } catch (error) {
      for (const waiter of this.#waiting.get(id) ?? []) waiter.reject(error);
    }
  }
}
