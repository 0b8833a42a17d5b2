/** Every command about dead letters. */
import { isReply, OutOfMemoryError, type Redis, type Reply } from "@ropeway/core";
import { UnknownLetterError } from "../errors.ts";
import type { MergeKeys } from "../keys.ts";
import * as scripts from "./scripts.ts";

/** A letter's record as it is stored. */
export interface StoredLetter {
  readonly id: string;
  readonly key: string;
  readonly reason: string;
  readonly attempts: number;
  readonly items: number;
  /** Unix seconds. */
  readonly at: number;
  readonly delivery: string;
}

/** The maximum of one replay.lua. A longer letter takes several. */
const REPLAY_ITEMS = 500;
const REPLAY_BYTES = 4_194_304;

/** The dead letters of one prefix. */
export class LetterStore {
  readonly #redis: Redis;
  readonly #keys: MergeKeys;

  constructor(redis: Redis, keys: MergeKeys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  /** Ids of all letters or of one key's, newest first. */
  newest(key: string | undefined, from: number, most: number): Promise<readonly string[]> {
    const index = key === undefined ? this.#keys.dead : this.#keys.deadOf(key);
    return this.#send(["ZREVRANGE", index, String(from), String(from + most - 1)]);
  }

  /** Ids of letters that became dead letters until then (unix seconds), oldest first. */
  oldest(given: { until: string; skip: number; most: number }): Promise<readonly string[]> {
    const { until, skip, most } = given;
    const limit = ["LIMIT", String(skip), String(most)];
    return this.#send<readonly string[]>([
      ...["ZRANGEBYSCORE", this.#keys.dead, "-inf", until],
      ...limit,
    ]);
  }

  /** Ids beyond the newest `count`, oldest first. */
  async excess(count: number, most: number): Promise<readonly string[]> {
    const beyond = Math.min(most, (await this.count()) - count);
    if (beyond <= 0) return [];
    return this.#send(["ZRANGE", this.#keys.dead, "0", String(beyond - 1)]);
  }

  count(): Promise<number> {
    return this.#send<number>(["ZCARD", this.#keys.dead]);
  }

  async read(id: string): Promise<StoredLetter | undefined> {
    const [, record = ""] = this.#keys.letter(id, "");
    const flat = await this.#send<readonly string[]>(["HGETALL", record]).catch((error) => {
      if (isReply(error, "WRONGTYPE")) return []; // a foreign value is not a letter
      throw error;
    });
    const found = scripts.fields(flat);
    const { key } = found;
    if (key === undefined) return undefined;
    return {
      ...{ id, key, reason: found.reason ?? "", delivery: found.delivery ?? "" },
      attempts: scripts.countOf(found.attempts),
      items: scripts.countOf(found.items),
      at: scripts.numberOf(found.at),
    };
  }

  /** One body and its head; undefined beyond the end. */
  async item(
    { id, key }: Pick<StoredLetter, "id" | "key">,
    position: number,
  ): Promise<{ head: Buffer; body: Buffer } | undefined> {
    const [, , bodies = "", heads = ""] = this.#keys.letter(id, key);
    const read = (list: string) =>
      this.#redis.send<Buffer | null>(["LINDEX", list, String(position)], {
        key: list,
        binary: true,
        repeatable: true,
      });
    const [body, head] = await Promise.all([read(bodies), read(heads)]);
    return body === null ? undefined : { body, head: head ?? Buffer.alloc(0) };
  }

  /** Moves a letter back to its key. Returns its number of items. */
  async replay({ id, key }: Pick<StoredLetter, "id" | "key">): Promise<number> {
    const keys = [...this.#keys.unit(key), ...this.#keys.letter(id, key)];
    const single = key.startsWith("-") ? 1 : 0;
    const args = [key, this.#keys.channel, id, single, REPLAY_ITEMS, REPLAY_BYTES];
    let items = 0;
    for (let left = 1; left > 0; ) {
      const [moved, rest] = await this.#redis.run(scripts.replay, keys, args).catch((error) => {
        throw isReply(error, "OOM") ? new OutOfMemoryError(`a replay of ${key}`, error) : error;
      });
      if (moved < 0) {
        if (items > 0) return items; // another caller replayed the rest
        throw new UnknownLetterError(id);
      }
      items += moved;
      left = rest;
    }
    return items;
  }

  /** Deletes a letter. Returns its number of items. */
  async discard({ id, key }: Pick<StoredLetter, "id" | "key">): Promise<number> {
    const count = await this.#redis.run(scripts.discard, this.#keys.letter(id, key), [id]);
    if (count < 0) throw new UnknownLetterError(id);
    return count;
  }

  /** Removes an id without a record from the index. */
  async forget(id: string): Promise<void> {
    await this.#send(["ZREM", this.#keys.dead, id]);
  }

  /** The time of Redis, unix seconds. */
  async now(): Promise<number> {
    const [seconds, micros] = await this.#send<readonly string[]>(["TIME"]);
    return Number(seconds) + Number(micros) / 1e6;
  }

  #send<T extends Reply = readonly string[]>(words: readonly string[]): Promise<T> {
    return this.#redis.send<T>(words, { key: this.#keys.timer, repeatable: true });
  }
}
