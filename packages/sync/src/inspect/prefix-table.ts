/**
 * Sums by prefix in constant memory. Prefixes are collected up to a maximum. When there are more, the smaller
 * half is merged into one sum for all others. Large prefixes stay, so the top of the table is right, and
 * `others` reports how much is not in it.
 */

/** The totals of one prefix. */
export interface PrefixSum {
  readonly prefix: string;
  readonly keys: number;
  readonly bytes: number;
}

interface Sum {
  keys: number;
  bytes: number;
}

export class PrefixTable {
  readonly #delimiter: Buffer;
  readonly #depth: number;
  readonly #most: number;
  readonly #sums = new Map<string, Sum>();
  readonly #others: Sum = { keys: 0, bytes: 0 };

  /** A prefix ends at the `depth`-th delimiter. Keys with fewer delimiters count as "(no prefix)" of their database. */
  constructor(delimiter: string, depth: number, most: number) {
    this.#delimiter = Buffer.from(delimiter);
    this.#depth = depth;
    this.#most = most;
  }

  add(key: Buffer, bytes: number): void {
    const prefix = this.#prefixOf(key);
    const sum = this.#sums.get(prefix);
    if (sum !== undefined) {
      sum.keys++;
      sum.bytes += bytes;
      return;
    }
    this.#sums.set(prefix, { keys: 1, bytes });
    if (this.#sums.size > this.#most) this.#shrink();
  }

  /** The prefixes with the largest sums, largest first. */
  top(count: number): PrefixSum[] {
    return this.#sorted()
      .slice(0, count)
      .map(([prefix, sum]) => ({ prefix, ...sum }));
  }

  /** The sum of everything that is not among the first `count`. */
  others(count: number): { readonly keys: number; readonly bytes: number } {
    const total = { ...this.#others };
    for (const [, { keys, bytes }] of this.#sorted().slice(count)) {
      total.keys += keys;
      total.bytes += bytes;
    }
    return total;
  }

  #prefixOf(key: Buffer): string {
    let end = 0;
    for (let depth = 0; depth < this.#depth; depth++) {
      const at = key.indexOf(this.#delimiter, end);
      if (at < 0) break;
      end = at + this.#delimiter.length;
    }
    return end === 0 ? "" : key.toString("utf8", 0, Math.min(end, LONGEST));
  }

  #sorted(): [string, Sum][] {
    return [...this.#sums].sort(([, a], [, b]) => b.bytes - a.bytes);
  }

  #shrink(): void {
    for (const [prefix, { keys, bytes }] of this.#sorted().slice(this.#most >> 1)) {
      this.#sums.delete(prefix);
      this.#others.keys += keys;
      this.#others.bytes += bytes;
    }
  }
}

/** Prefixes are cut at this length, so that long keys cannot fill the memory. */
const LONGEST = 200;
