/** What an operator sees and does: the keys and their items, dead letters, endpoints, pause. */
import { isReply, type Reply } from "@ropeway/core";
import { type Endpoint, readEndpoint } from "./endpoint-health.ts";
import {
  OutOfMemoryError,
  TooManyPausedError,
  UnknownEndpointError,
  UnknownLetterError,
} from "./errors.ts";
import { type Item, readItems } from "./item.ts";
import { checkKey } from "./keys.ts";
import type { MergeQueue } from "./queue.ts";
import * as scripts from "./scripts.ts";
import { singlePrefix, type Target, targetOf } from "./target.ts";

/** A key with something in it. */
export interface PendingKey {
  readonly key: string;
  /** Where it goes; undefined for a key that the HTTP service did not make. */
  readonly target: Target | undefined;
  /** When it fires (or, while its batch is out, when the lease ends), unix seconds. */
  readonly ontime: number | undefined;
  readonly items: number;
  /** `sending`: a dispatcher has it; `retrying`: it failed and waits for the next attempt. */
  readonly state: "waiting" | "sending" | "retrying";
  /** An operator keeps it from being handed out. */
  readonly paused: boolean;
  readonly attempts: number;
  /** Why the last attempt failed. */
  readonly error: string | undefined;
  readonly data: Readonly<Record<string, string>>;
}

/** A key and its oldest items. */
export interface PeekedKey extends PendingKey {
  readonly oldest: readonly Item[];
}

/** One page of a list. */
export interface Page<T> {
  readonly entries: readonly T[];
  /** Where the next page begins; undefined at the end. */
  readonly cursor: string | undefined;
}

/** Which page, and which keys. */
export interface ListOptions {
  readonly cursor?: string | undefined;
  /** @default 50 */
  readonly limit?: number;
  /** Only keys that contain this text. */
  readonly search?: string | undefined;
}

/** A batch that was given up. */
export interface DeadLetter {
  readonly id: string;
  readonly key: string;
  readonly target: Target | undefined;
  readonly reason: string;
  readonly attempts: number;
  readonly items: number;
  /** When it died, unix seconds. */
  readonly at: number;
  /** The webhook-id it was sent under. */
  readonly delivery: string;
}

/** The queue in numbers. */
export interface MergeStats {
  readonly keys: number;
  readonly due: number;
  readonly deadLetters: number;
  readonly endpoints: number;
  /** How long the oldest due key has been due, ms; 0 if none is. */
  readonly oldestDueMs: number;
  /** Whether nothing at all is handed out. */
  readonly paused: boolean;
  /** Keys that are paused one by one. */
  readonly pausedKeys: number;
}

const PAGE = 50;
/** Every look for due keys goes by all of them. */
const MOST_PAUSED = 1_000;

/** The operator's view of a queue. */
export class Inspector {
  readonly #queue: MergeQueue;

  constructor(queue: MergeQueue) {
    this.#queue = queue;
  }

  /** The keys, soonest first; with a search in no order, and pages may be short. */
  async list(options: ListOptions = {}): Promise<Page<PendingKey>> {
    const { cursor = "0", limit = PAGE, search } = options;
    const timer = this.#queue.keys.timer;
    if (search !== undefined && search !== "") return this.#search(cursor, limit, search);
    const from = Number(cursor);
    const found = await this.#send<readonly string[]>(["ZRANGE", timer, from, from + limit - 1]);
    const entries = await Promise.all(found.map((key) => this.peek(key, 0)));
    const next = found.length < limit ? undefined : String(from + limit);
    return { entries, cursor: next };
  }

  /** One key and its oldest items. */
  async peek(key: string, limit: number = PAGE): Promise<PeekedKey> {
    checkKey(key);
    const { keys, redis } = this.#queue;
    const all = [...keys.unit(key), keys.pausedKeys];
    const seen = await redis.run(scripts.peek, all, [key, limit]);
    const { state } = seen;
    const out = state.batch !== undefined;
    return {
      key,
      target: targetOf(key),
      ontime: seen.ontime,
      items: seen.items,
      state: seen.lockMs !== -2 ? "sending" : out ? "retrying" : "waiting",
      paused: seen.paused,
      attempts: Number(state.attempts ?? 0),
      error: state.error,
      data: seen.data,
      oldest: readItems(seen.heads, seen.bodies),
    };
  }

  /** The keys of one target: one for a merge key, one per item for a single one. */
  async keysOf(target: Target, limit: number = Number.MAX_SAFE_INTEGER): Promise<string[]> {
    const prefix = singlePrefix(target);
    const range = [`[${prefix}`, Buffer.concat([Buffer.from(`(${prefix}`), Buffer.from([0xff])])];
    const found = await this.#send<readonly string[]>([
      ...["ZRANGEBYLEX", this.#queue.keys.singles, ...range],
      ...["LIMIT", 0, Math.min(limit, 1_000_000)],
    ]);
    // A longer merge key can begin with the same text.
    return found.filter((key) => targetOf(key)?.mergeKey === target.mergeKey);
  }

  /** Fires the key now. Returns how many items it has. */
  sendNow(key: string): Promise<number> {
    const { keys, redis } = this.#queue;
    return redis.run(scripts.sendNow, keys.unit(key), [key, keys.channel]);
  }

  /** Deletes everything that is queued under the key. */
  remove(key: string): Promise<scripts.Removed> {
    const { keys, redis } = this.#queue;
    return redis.run(scripts.remove, [...keys.unit(key), keys.pausedKeys], [key]);
  }

  /** Nothing, or nothing of one key, is handed out until resume(); pushes are still accepted. */
  async pause(key?: string): Promise<void> {
    const { keys, redis } = this.#queue;
    if (key === undefined) {
      await this.#send(["SET", keys.paused, "1"]);
      return;
    }
    checkKey(key);
    const done = await redis.run(scripts.pause, [keys.pausedKeys], [key, MOST_PAUSED]);
    if (done === 0) throw new TooManyPausedError(key, MOST_PAUSED);
  }

  /** Ends the pause of all, or of one key: what is due fires now. Says whether there was a pause. */
  async resume(key?: string): Promise<boolean> {
    const { keys } = this.#queue;
    const end = key === undefined ? ["DEL", keys.paused] : ["SREM", keys.pausedKeys, key];
    const ended = await this.#send<number>(end);
    await this.#send(["PUBLISH", keys.channel, "insert"]);
    return ended === 1;
  }

  /** The dead letters, newest first. */
  async letters(options: ListOptions & { key?: string } = {}): Promise<Page<DeadLetter>> {
    const { cursor = "0", limit = PAGE, key } = options;
    const { keys } = this.#queue;
    const index = key === undefined ? keys.dead : keys.deadOf(key);
    const from = Number(cursor);
    const ids = await this.#send<readonly string[]>(["ZREVRANGE", index, from, from + limit - 1]);
    const letters = await Promise.all(ids.map((id) => this.#letter(id)));
    const next = ids.length < limit ? undefined : String(from + limit);
    return { entries: letters.filter((letter) => letter !== undefined), cursor: next };
  }

  /** Brings a dead letter back to its key, which fires now. Returns its number of items. */
  async replay(id: string): Promise<number> {
    const { keys, redis } = this.#queue;
    const { key } = await this.#existing(id);
    const all = [...keys.unit(key), ...keys.letter(id, key)];
    const single = key.startsWith("-") ? 1 : 0;
    const run = redis.run(scripts.replay, all, [key, keys.channel, id, single]);
    const count = await run.catch((error) => {
      throw isReply(error, "OOM") ? new OutOfMemoryError(key, error) : error;
    });
    if (count < 0) throw new UnknownLetterError(id);
    return count;
  }

  /** Deletes a dead letter for good. Returns its number of items. */
  async discard(id: string): Promise<number> {
    const { keys, redis } = this.#queue;
    const { key } = await this.#existing(id);
    const count = await redis.run(scripts.discard, keys.letter(id, key), [id]);
    if (count < 0) throw new UnknownLetterError(id);
    return count;
  }

  /** A dead letter's items. */
  async letterItems(id: string, limit: number = PAGE): Promise<Item[]> {
    const { keys, redis } = this.#queue;
    const { key } = await this.#existing(id);
    const [, , bodies = "", heads = ""] = keys.letter(id, key);
    const read = (list: string) =>
      redis.send<readonly Buffer[]>(["LRANGE", list, "0", String(limit - 1)], {
        key: list,
        binary: true,
        repeatable: true,
      });
    return readItems(await read(heads), await read(bodies));
  }

  /** The targets, last used first. */
  async endpoints(options: ListOptions = {}): Promise<Page<Endpoint>> {
    const { cursor = "0", limit = PAGE } = options;
    const { keys, redis } = this.#queue;
    const from = Number(cursor);
    const to = from + limit - 1;
    const urls = await this.#send<readonly string[]>(["ZREVRANGE", keys.endpoints, from, to]);
    const found = await Promise.all(urls.map((url) => readEndpoint(redis, keys, url)));
    const gone = urls.filter((_, i) => found[i] === undefined);
    if (gone.length > 0) await this.#send(["ZREM", keys.endpoints, ...gone]); // expired
    const next = urls.length < limit ? undefined : String(from + limit - gone.length);
    return { entries: found.filter((endpoint) => endpoint !== undefined), cursor: next };
  }

  /** Lets a target be called again: after a 410, a pause, a hold or an open breaker. */
  async enable(url: string): Promise<void> {
    const { keys } = this.#queue;
    const breaker = keys.breaker(new URL(url).origin);
    // One misspelt letter must not look like success while the receiver stays disabled.
    const known = await this.#send<number>(["EXISTS", keys.endpoint(url), breaker]);
    if (known === 0) throw new UnknownEndpointError(url);
    await this.#send(["HDEL", keys.endpoint(url), "disabled", "paused", "held"]);
    await this.#send(["DEL", breaker]);
  }

  /** Stops a target from being called: what comes due for it becomes a dead letter. */
  async disable(url: string, reason: string): Promise<void> {
    await this.#mark(url, "disabled", reason);
  }

  /** Lets what comes due for a target wait until enable(), which ends it within seconds. */
  async pauseEndpoint(url: string): Promise<void> {
    await this.#mark(url, "paused", "1");
  }

  /** The queue in numbers. */
  async stats(): Promise<MergeStats> {
    const { keys } = this.#queue;
    const [sec, usec] = await this.#send<readonly string[]>(["TIME"]);
    const now = Number(sec) + Number(usec) / 1e6;
    const [count, due, dead, endpoints, paused, pausedKeys, first] = await Promise.all([
      this.#send<number>(["ZCARD", keys.timer]),
      this.#send<number>(["ZCOUNT", keys.timer, "-inf", now]),
      this.#send<number>(["ZCARD", keys.dead]),
      this.#send<number>(["ZCARD", keys.endpoints]),
      this.#send<number>(["EXISTS", keys.paused]),
      this.#send<number>(["SCARD", keys.pausedKeys]),
      this.#send<readonly string[]>(["ZRANGE", keys.timer, 0, 0, "WITHSCORES"]),
    ]);
    const oldest = Math.max(0, (now - Number(first[1] ?? now)) * 1_000);
    return {
      keys: count,
      due,
      deadLetters: dead,
      endpoints,
      oldestDueMs: oldest,
      paused: paused === 1,
      pausedKeys,
    };
  }

  /** Writes about a target what stays until enable(). */
  async #mark(url: string, field: "disabled" | "paused", value: string): Promise<void> {
    const { keys } = this.#queue;
    const time = await this.#send<readonly string[]>(["TIME"]);
    await this.#send(["ZADD", keys.endpoints, time[0] ?? "0", url]);
    await this.#send(["HSET", keys.endpoint(url), field, value]);
    await this.#send(["PERSIST", keys.endpoint(url)]);
  }

  async #search(cursor: string, limit: number, search: string): Promise<Page<PendingKey>> {
    const pattern = `*${search.replace(/[*?[\]\\]/g, "\\$&")}*`;
    const [next, flat] = await this.#send<readonly [string, readonly string[]]>([
      ...["ZSCAN", this.#queue.keys.timer, cursor, "MATCH", pattern],
      ...["COUNT", Math.max(limit, 1_000)],
    ]);
    const found = flat.filter((_, i) => i % 2 === 0);
    const entries = await Promise.all(found.map((key) => this.peek(key, 0)));
    return { entries, cursor: next === "0" ? undefined : next };
  }

  async #letter(id: string): Promise<DeadLetter | undefined> {
    const [, record = ""] = this.#queue.keys.letter(id, "");
    const found = scripts.fields(await this.#send<readonly string[]>(["HGETALL", record]));
    const { key } = found;
    if (key === undefined) return undefined;
    return {
      id,
      key,
      target: targetOf(key),
      reason: found.reason ?? "",
      attempts: Number(found.attempts ?? 0),
      items: Number(found.items ?? 0),
      at: Number(found.at ?? 0),
      delivery: found.delivery ?? "",
    };
  }

  async #existing(id: string): Promise<DeadLetter> {
    const letter = await this.#letter(id);
    if (letter === undefined) throw new UnknownLetterError(id);
    return letter;
  }

  /** Every command here can be repeated without harm. */
  #send<T extends Reply = Reply>(words: readonly (string | number | Buffer)[]): Promise<T> {
    const args = words.map((word) => (typeof word === "number" ? String(word) : word));
    return this.#queue.redis.send<T>(args, { key: this.#queue.keys.timer, repeatable: true });
  }
}
