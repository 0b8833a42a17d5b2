/** The attempt log: a bounded stream that all dispatchers write and operators read. */
import { defineScript, type Redis, type Script } from "@ropeway/core";
import type { MergeKeys } from "../keys.ts";
import { fields, numberOf } from "./scripts.ts";

/** One entry of the stream. */
export interface StoredAttempt {
  /** The stream's id: ms since 1970, "-", a number. */
  readonly entry: string;
  readonly json: string;
}

const log: Script = defineScript(new URL("../../lua/log.lua", import.meta.url));
const MOST_ENTRIES = 10_000;

/** Reads and writes the log of one prefix. */
export class AttemptStore {
  readonly #redis: Redis;
  readonly #keys: MergeKeys;

  constructor(redis: Redis, keys: MergeKeys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  /** Appends at most a hundred entries, and adds to at most a hundred totals. */
  async append(
    entries: readonly string[],
    totals: Readonly<Record<string, number>> = {},
  ): Promise<void> {
    const words = Object.entries(totals).flat();
    const keys = [this.#keys.attempts, this.#keys.totals];
    await this.#redis.run(log, keys, [MOST_ENTRIES, words.length, ...words, ...entries]);
  }

  /** The totals of all dispatchers. */
  async totals(): Promise<Readonly<Record<string, number>>> {
    const words = ["HGETALL", this.#keys.totals];
    const options = { key: this.#keys.timer, repeatable: true };
    const counted = fields(await this.#redis.send<readonly string[]>(words, options));
    return Object.fromEntries(Object.entries(counted).map(([name, n]) => [name, numberOf(n)]));
  }

  /** Entries before one, newest first. */
  async before(entry: string | undefined, most: number): Promise<readonly StoredAttempt[]> {
    const end = entry === undefined ? "+" : `(${entry}`;
    return this.#entries(["XREVRANGE", this.#keys.attempts, end, "-", "COUNT", String(most)]);
  }

  /** Entries after one, oldest first. */
  async after(entry: string, most: number): Promise<readonly StoredAttempt[]> {
    const words = ["XRANGE", this.#keys.attempts, `(${entry}`, "+", "COUNT", String(most)];
    return this.#entries(words);
  }

  async #entries(words: readonly string[]): Promise<readonly StoredAttempt[]> {
    const found = await this.#redis.send<readonly (readonly [string, readonly string[]])[]>(words, {
      key: this.#keys.timer,
      repeatable: true,
    });
    return found.map(([entry, flat]) => ({ entry, json: fields(flat).attempt ?? "{}" }));
  }
}
