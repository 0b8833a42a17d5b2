/** A map that removes the least recently used entries when it grows too large. */
export class Recent<K, V> {
  readonly #entries = new Map<K, V>();
  readonly #limit: number;
  readonly #onForgotten: ((value: V) => void) | undefined;

  constructor(limit: number, onForgotten?: (value: V) => void) {
    this.#limit = limit;
    this.#onForgotten = onForgotten;
  }

  get size(): number {
    return this.#entries.size;
  }

  values(): IterableIterator<V> {
    return this.#entries.values();
  }

  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  note(key: K, value: V): void {
    this.#entries.delete(key); // moves it to the end: the order is that of the last use
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#limit) return;
    for (const [oldest, forgotten] of this.#entries) {
      this.#entries.delete(oldest);
      this.#onForgotten?.(forgotten);
      break;
    }
  }

  /** The entry, created if there is none. Counts as a use. */
  obtain(key: K, make: () => V): V {
    const found = this.#entries.get(key);
    if (found !== undefined && this.#entries.size < this.#limit / 2) return found; // the map is less than half full
    const value = found ?? make();
    this.note(key, value);
    return value;
  }

  /** Removes a key. Returns whether it was known. */
  forget(key: K): boolean {
    return this.#entries.delete(key);
  }
}
