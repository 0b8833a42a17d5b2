/**
 * Waiting for the end of jobs. A waiter first subscribes, then marks the job in Redis in the same step in
 * which it reads the job, so that it cannot miss the end. After an interrupted subscription it reads every
 * job again that it waits for. A user without rights on channels polls instead.
 */
import { ClosedError, ServerReplyError } from "@ropeway/core";
import {
  type Deferred,
  deferred,
  Loop,
  type Subscriber,
  show,
  type WaitBounds,
  within,
} from "@ropeway/core/internal";
import { viewOf } from "../admin/job-view.ts";
import { errorOf, JobCancelledError, JobNotFoundError, JobRemovedError } from "../errors.ts";
import type { QueueStore } from "../store/queue-store.ts";

/** How often jobs are read without a subscription. */
const POLL_MS = 250;

interface Waiter extends Deferred<unknown> {
  /** When the job was added, once the waiter has seen it: a later job with the id has another time. */
  addedAt?: number;
}

/** The outcomes that this process waits for. */
export class Results {
  readonly #store: QueueStore;
  readonly #waiting = new Map<string, Set<Waiter>>();
  #listening: Promise<AsyncDisposable> | undefined;
  #closed = false;

  constructor(store: QueueStore) {
    this.#store = store;
  }

  /** The job's result; rejects with its error if it failed, was removed, or is unknown. */
  async of(id: string, bounds: WaitBounds = {}): Promise<unknown> {
    const waiter: Waiter = deferred<unknown>();
    waiter.promise.catch(() => {}); // the bound may reject first
    const waiters = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, waiters.add(waiter));
    try {
      const what = `the result of job ${show(id)} in queue ${show(this.#store.name)}`;
      return await within(this.#await(id, waiter), { what, ...bounds });
    } finally {
      waiters.delete(waiter);
      if (waiters.size === 0) this.#waiting.delete(id);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const id of this.#waiting.keys()) this.#reject(id, new ClosedError("the queue"));
    const listening = await this.#listening?.catch(() => undefined); // its waiters got the error
    await listening?.[Symbol.asyncDispose]();
  }

  async #await(id: string, waiter: Waiter): Promise<unknown> {
    this.#listening ??= this.#listen();
    await this.#listening;
    if (this.#closed) throw new ClosedError("the queue");
    await this.#look(id);
    return waiter.promise;
  }

  /** A failure is not remembered: the next waiter tries again. */
  async #listen(): Promise<AsyncDisposable> {
    let subscriber: Subscriber | undefined;
    try {
      subscriber = await this.#store.redis.subscriber("jobs-results");
      subscriber.onGap(() => this.#lookAtAll());
      await subscriber.subscribe(this.#store.keys.results, (message) =>
        this.#noteOutcome(String(message)),
      );
      return subscriber;
    } catch (error) {
      await subscriber?.close();
      if (error instanceof ServerReplyError && error.prefix === "NOPERM") return this.#poll(error);
      this.#listening = undefined;
      throw error;
    }
  }

  #poll(error: unknown): Loop {
    const { logger } = this.#store.redis;
    logger.warn(
      { err: error, queue: this.#store.name },
      "no rights on channels: results are polled",
    );
    const tick = async () => {
      this.#lookAtAll();
      return POLL_MS;
    };
    return new Loop({ tick, onError: () => {} }).start(); // the tick cannot throw
  }

  #lookAtAll(): void {
    for (const id of this.#waiting.keys()) void this.#look(id);
  }

  /** id, or id LF "removed", or id LF "cancelled" LF reason. An empty id means all jobs. */
  #noteOutcome(message: string): void {
    const [id = "", what, ...reason] = message.split("\n");
    if (id === "") this.#allRemoved();
    if (!this.#waiting.has(id)) return;
    if (what === undefined) void this.#look(id);
    else if (what === "cancelled") void this.#removed(id, reason.join("\n"));
    else void this.#removed(id);
  }

  async #look(id: string): Promise<void> {
    try {
      const raw = await this.#store.inspect(id, true);
      if (raw === undefined) throw new JobNotFoundError(this.#store.name, id);
      const view = viewOf(raw);
      for (const waiter of this.#waiting.get(id) ?? []) waiter.addedAt ??= view.addedAt;
      if (view.state === "failed") throw errorOf(id, view.failure);
      if (view.state !== "completed") return;
      for (const waiter of this.#waiting.get(id) ?? []) waiter.resolve(view.result);
    } catch (error) {
      this.#reject(id, error);
    }
  }

  /** The queue was deleted. */
  #allRemoved(): void {
    for (const id of this.#waiting.keys()) void this.#removed(id);
  }

  /** A job was removed. The message can be late: a job that has the id now is not meant. */
  async #removed(id: string, cancelled?: string): Promise<void> {
    try {
      const raw = await this.#store.inspect(id);
      const now = raw === undefined ? undefined : viewOf(raw).addedAt;
      const error =
        cancelled === undefined
          ? new JobRemovedError(this.#store.name, id)
          : new JobCancelledError(id, cancelled);
      for (const waiter of this.#waiting.get(id) ?? []) {
        if (now === undefined || (waiter.addedAt ?? now) !== now) waiter.reject(error);
      }
    } catch (error) {
      this.#reject(id, error);
    }
  }

  #reject(id: string, error: unknown): void {
    for (const waiter of this.#waiting.get(id) ?? []) waiter.reject(error);
  }
}
