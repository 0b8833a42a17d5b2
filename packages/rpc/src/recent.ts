/** A map that forgets what was not noted for the longest time when it grows too large. */
export class Recent<K, V> {
  readonly #entries = new Map<K, V>();
  readonly #limit: number;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  note(key: K, value: V): void {
    this.#entries.delete(key); // to the end: the order is that of the last note
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#limit) return;
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      break;
    }
  }

  /** Forgets a key; whether it was known. */
  forget(key: K): boolean {
    return this.#entries.delete(key);
  }
}
