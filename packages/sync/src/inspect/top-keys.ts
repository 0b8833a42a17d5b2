/** Lists the largest keys, in memory for that many keys only. */
import type { ValueType } from "../value/part.ts";

/** One large key. */
export interface TopKey {
  readonly db: number;
  /** UTF-8, invalid bytes replaced, cut after 200 bytes. */
  readonly key: string;
  readonly type: ValueType;
  readonly encoding: string;
  /** Estimated memory in a server. */
  readonly bytes: number;
  /** Bytes in the file. */
  readonly fileBytes: number;
  readonly elements: number | undefined;
}

export class TopKeys {
  readonly #count: number;
  /** Sorted, largest first. */
  readonly #keys: TopKey[] = [];

  constructor(count: number) {
    this.#count = count;
  }

  /** Whether a key of this size would be listed. Call it first, because describing a key takes time. */
  wants(bytes: number): boolean {
    if (this.#keys.length < this.#count) return this.#count > 0;
    return bytes > (this.#keys.at(-1)?.bytes ?? 0);
  }

  add(key: TopKey): void {
    const at = this.#keys.findIndex(({ bytes }) => bytes < key.bytes);
    this.#keys.splice(at < 0 ? this.#keys.length : at, 0, key);
    if (this.#keys.length > this.#count) this.#keys.pop();
  }

  get list(): readonly TopKey[] {
    return this.#keys;
  }
}
