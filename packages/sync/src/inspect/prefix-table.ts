/**
 * Sums by prefix in constant memory. Prefixes are collected up to a bound; when there are more, the smaller
 * half goes into one sum for all others. A prefix that is large stays, so the top of the table is right, and
 * `others` says how much is not in it.
 */

/** What is known of one prefix. */
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

  /** A prefix reaches to the `depth`-th delimiter; a key with fewer is its own database's "(no prefix)". */
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

  /** The largest first. */
  top(count: number): PrefixSum[] {
    return this.#sorted()
      .slice(0, count)
      .map(([prefix, sum]) => ({ prefix, ...sum }));
  }

  /** Everything that is not among the first `count`. */
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

/** A prefix is cut there, so that keys cannot fill the table with their length. */
const LONGEST = 200;
