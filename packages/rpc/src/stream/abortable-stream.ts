/**
 * Items of a generator that can be left at any moment. An async generator queues return() after a waiting
 * next(), so a reader that leaves would wait for an item that may never come. Here return()
 * aborts a signal, which the generator passes to everything it waits for, and ends the waiting next().
 */
import { whenAborted } from "@ropeway/core/internal";

const DONE = { value: undefined, done: true } as const;

/** An async iterable over the items of a generator, which gets a signal for its waits. */
export class AbortableStream<T> implements AsyncIterableIterator<T> {
  readonly #items: AsyncGenerator<T>;
  readonly #abort = new AbortController();
  readonly #waiting = new Set<(result: IteratorResult<T>) => void>();
  #unsubscribe: (() => void) | undefined;
  #left = false;

  /** `signal` is the caller's own; aborting it fails the stream. */
  constructor(make: (signal: AbortSignal) => AsyncGenerator<T>, signal?: AbortSignal) {
    this.#items = make(this.#abort.signal);
    if (signal?.aborted) this.#abort.abort(signal.reason);
    else if (signal !== undefined) {
      this.#unsubscribe = whenAborted(signal, () => this.#abort.abort(signal.reason));
    }
  }

  next(): Promise<IteratorResult<T>> {
    if (this.#left) return Promise.resolve(DONE);
    return new Promise((resolve, reject) => {
      this.#waiting.add(resolve);
      this.#items.next().then(
        (result) => {
          this.#waiting.delete(resolve);
          if (result.done) this.#unsubscribe?.();
          resolve(result); // has no effect if return() came first
        },
        (error) => {
          this.#waiting.delete(resolve);
          this.#unsubscribe?.();
          reject(error);
        },
      );
    });
  }

  async return(): Promise<IteratorResult<T>> {
    this.#left = true;
    this.#unsubscribe?.();
    for (const resolve of this.#waiting) resolve(DONE);
    this.#waiting.clear();
    this.#abort.abort();
    this.#items.return(undefined).catch(() => {}); // the reader has left, so no caller gets the error
    return DONE;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
