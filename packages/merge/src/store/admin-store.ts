/** Every command of an operator on keys: lists, inspection, deletion, pause, numbers. */
import {
  isReply,
  NotConnectedError,
  type Redis,
  type Reply,
  WrongKeyTypeError,
} from "@ropeway/core";
import { TooManyPausedError } from "../errors.ts";
import type { MergeKeys } from "../keys.ts";
import { MOST_DATA_FIELDS } from "./queue-store.ts";
import * as scripts from "./scripts.ts";

/** The queue in numbers, as counted by Redis. */
export interface Counts {
  readonly keys: number;
  readonly due: number;
  readonly deadLetters: number;
  readonly endpoints: number;
  readonly paused: boolean;
  readonly pausedKeys: number;
  readonly broken: number;
  readonly openBreakers: number;
  readonly oldestDueMs: number;
}

/** The maximum number of bytes of a key's data that are shown. */
const MOST_DATA_BYTES = 262_144;
/** Limited, because every check for due keys skips all paused ones. */
const MOST_PAUSED = 1_000;

/** The operator's commands on one prefix. */
export class AdminStore {
  readonly #redis: Redis;
  readonly #keys: MergeKeys;

  constructor(redis: Redis, keys: MergeKeys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  /** Keys by time, soonest first. */
  keysByTime(from: number, most: number): Promise<readonly string[]> {
    return this.#send(["ZRANGE", this.#keys.timer, from, from + most - 1]);
  }

  /** A page of keys whose name contains a string, and the cursor of the next page. */
  async scan(cursor: string, contained: string): Promise<{ next: string; keys: string[] }> {
    const pattern = `*${contained.replace(/[*?[\]\\]/g, "\\$&")}*`;
    const words = ["ZSCAN", this.#keys.timer, cursor, "MATCH", pattern, "COUNT", 1_000];
    const [next, flat] = await this.#send<readonly [string, readonly string[]]>(words);
    return { next, keys: flat.filter((_, i) => i % 2 === 0) };
  }

  /** Keys of single items that begin with a prefix, in lexical order, after one of them. */
  singles(prefix: string, after: string | undefined, most: number): Promise<readonly string[]> {
    const from = after === undefined ? `[${prefix}` : `(${after}`;
    const to = Buffer.concat([Buffer.from(`(${prefix}`), Buffer.from([0xff])]);
    const words = ["ZRANGEBYLEX", this.#keys.singles, from, to, "LIMIT", 0, most];
    return this.#send(words);
  }

  peek(
    key: string,
    given: { from: number; most: number; maxBytes: number },
  ): Promise<scripts.PeekReply> {
    const keys = [...this.#keys.unit(key), this.#keys.pausedKeys];
    const args = [key, given.from, given.most, given.maxBytes, MOST_DATA_FIELDS, MOST_DATA_BYTES];
    return this.#redis.run(scripts.peek, keys, args);
  }

  sendNow(key: string): Promise<number> {
    return this.#redis.run(scripts.sendNow, this.#keys.unit(key), [key, this.#keys.channel]);
  }

  async remove(key: string, rememberMs: number): Promise<{ deleted: number; sending: number }> {
    const keys = [...this.#keys.unit(key), this.#keys.pausedKeys, this.#keys.deleted(key)];
    const [deleted, sending] = await this.#redis.run(scripts.remove, keys, [key, rememberMs]);
    return { deleted, sending };
  }

  async pauseAll(): Promise<void> {
    await this.#send(["SET", this.#keys.paused, "1"]);
  }

  async pauseKey(key: string): Promise<void> {
    const args = [key, MOST_PAUSED];
    const done = await this.#redis.run(scripts.pause, [this.#keys.pausedKeys], args);
    if (done === 0) throw new TooManyPausedError(key, MOST_PAUSED);
  }

  /** Ends the pause of one key, or of everything. Returns whether there was one. */
  async resume(key?: string): Promise<boolean> {
    const { paused, pausedKeys, channel } = this.#keys;
    const ended = await this.#send<number>(
      key === undefined ? ["DEL", paused] : ["SREM", pausedKeys, key],
    );
    await this.#send(["PUBLISH", channel, "insert"]).catch((error) => {
      if (!isReply(error, "NOPERM")) throw error; // without rights on channels it is noticed later
    });
    return ended === 1;
  }

  /** The time of Redis, ms since 1970. */
  async now(): Promise<number> {
    const [seconds, micros] = await this.#send<readonly string[]>(["TIME"]);
    return Number(seconds) * 1_000 + Number(micros) / 1_000;
  }

  /** Throws if the keys that dispatchers need cannot be read. */
  async check(): Promise<void> {
    if (!this.#redis.connected) throw new NotConnectedError(this.#redis.where, 0);
    const { timer, schedules, pausedKeys } = this.#keys;
    const wanted: readonly (readonly [string, string])[] = [
      [timer, "zset"],
      [schedules, "zset"],
      [pausedKeys, "set"],
    ];
    await Promise.all(
      wanted.map(async ([key, type]) => {
        const found = await this.#send<string>(["TYPE", key]);
        if (found !== type && found !== "none") throw new WrongKeyTypeError(key);
      }),
    );
  }

  async counts(): Promise<Counts> {
    const { timer, dead, endpoints, paused, pausedKeys, broken, breakers } = this.#keys;
    const now = (await this.now()) / 1_000;
    const [keys, due, letters, urls, isPaused, pausedCount, brokenCount, opened, first] =
      await Promise.all([
        this.#send<number>(["ZCARD", timer]),
        this.#send<number>(["ZCOUNT", timer, "-inf", now]),
        this.#send<number>(["ZCARD", dead]),
        this.#send<number>(["ZCARD", endpoints]),
        this.#send<number>(["EXISTS", paused]),
        this.#send<number>(["SCARD", pausedKeys]),
        this.#send<number>(["ZCARD", broken]),
        this.#send<number>(["ZCARD", breakers]),
        this.#send<readonly string[]>(["ZRANGE", timer, 0, 0, "WITHSCORES"]),
      ]);
    return {
      ...{ keys, due, deadLetters: letters, endpoints: urls, paused: isPaused === 1 },
      ...{ pausedKeys: pausedCount, broken: brokenCount, openBreakers: opened },
      oldestDueMs: Math.max(0, (now - Number(first[1] ?? now)) * 1_000),
    };
  }

  /** Every command here can safely be repeated. */
  #send<T extends Reply = Reply>(words: readonly (string | number | Buffer)[]): Promise<T> {
    const args = words.map((word) => (typeof word === "number" ? String(word) : word));
    return this.#redis.send<T>(args, { key: this.#keys.timer, repeatable: true });
  }
}
