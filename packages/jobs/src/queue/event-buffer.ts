/** A bounded buffer of events for a `for await` loop. A slow reader loses the oldest events. */
const MOST = 10_000;

/** An async iterator with a push method. */
export class EventBuffer<T> implements AsyncIterator<T> {
  readonly #items: T[] = [];
  readonly #onReturn: () => void;
  #waiting: ((result: IteratorResult<T>) => void)[] = [];
  #ended = false;

  constructor(onReturn: () => void) {
    this.#onReturn = onReturn;
  }

  push(item: T): void {
    const reader = this.#waiting.shift();
    if (reader !== undefined) reader({ value: item, done: false });
    else if (this.#items.push(item) > MOST) this.#items.shift();
  }

  end(): void {
    this.#ended = true;
    for (const reader of this.#waiting.splice(0)) reader({ value: undefined, done: true });
  }

  next(): Promise<IteratorResult<T>> {
    const item = this.#items.shift();
    if (item !== undefined) return Promise.resolve({ value: item, done: false });
    if (this.#ended) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  return(): Promise<IteratorResult<T>> {
    this.#onReturn();
    this.end();
    return Promise.resolve({ value: undefined, done: true });
  }
}
