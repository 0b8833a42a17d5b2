/**
 * Every command of the queue itself: one method per script, named arguments, replies parsed here. A
 * script's negative reply becomes an error here and nowhere else.
 */
import {
  InvalidArgumentError,
  isReply,
  LeaseLostError,
  OutOfMemoryError,
  type Redis,
  ServerReplyError,
  WrongKeyTypeError,
} from "@ropeway/core";
import { IdempotencyMismatchError } from "../errors.ts";
import { MergeKeys } from "../keys.ts";
import { type Item, readBatch, readItems } from "../queue/item.ts";
import type { ResolvedQueueOptions } from "../queue/options.ts";
import * as scripts from "./scripts.ts";

/** The arguments of one push.lua besides its items. */
export interface PushArguments {
  readonly key: string;
  readonly maxWaitMs: number;
  readonly data?: Readonly<Record<string, string>> | undefined;
  /** How to deliver, as JSON. */
  readonly request?: string | undefined;
  readonly idempotency?: { readonly key: string; readonly digest: string } | undefined;
  /** Four words per item; see PlainPush. */
  readonly words: readonly (string | Buffer)[];
  /** Stores an item of a "-" key even if Redis is out of memory. */
  readonly evenFull?: boolean;
}

/** A push of one item without further options, which can be sent together with others. */
export interface PlainPush {
  readonly key: string;
  /** Time, id, "a" (always) or "o" (once) and the rest of its head, body. */
  readonly words: readonly (string | Buffer)[];
}

/** The run of a schedule. */
export interface RunArguments extends Omit<PushArguments, "data" | "idempotency"> {
  readonly run: {
    readonly id: string;
    /** The due time that the caller saw. */
    readonly due: number;
    /** When it is due next; undefined for never again. */
    readonly next: number | undefined;
    readonly revision: string;
  };
}

/** The result of a stored push. */
export interface StoredPush {
  /** When the batch fires, ms since 1970. */
  readonly at: number;
  readonly items: number;
  readonly id: string;
}

/** The arguments of get.lua. */
export interface GetArguments {
  readonly key: string;
  readonly maxItems: number;
  readonly maxBytes: number;
  readonly leaseMs: number;
  readonly token: string;
  readonly batchId: string;
  /** Returns a batch that failed again unchanged. */
  readonly resume: boolean;
  /** Given by a dispatcher: moves the timer of a locked key to the lock's end. */
  readonly reservation?:
    | {
        readonly reserved: string;
        readonly score: string;
        /** Checks whether an operator has paused the key since it was reserved. */
        readonly waited?: boolean | undefined;
      }
    | undefined;
}

/** The result of get(). */
export type GetResult =
  | Exclude<scripts.GetReply, { status: "ok" }>
  | (Omit<Extract<scripts.GetReply, { status: "ok" }>, "count" | "heads" | "bodies"> & {
      readonly items: readonly Item[];
    });

/** A key and the token of its lock. */
export interface Held {
  readonly key: string;
  readonly token: string;
}

/** The maximum number of fields in a key's data. */
export const MOST_DATA_FIELDS = 1_000;

/** The commands of the six actions and of a batch's end. */
export class QueueStore {
  readonly redis: Redis;
  readonly keys: MergeKeys;
  readonly #options: ResolvedQueueOptions;
  readonly #pushHead: readonly string[];
  readonly #groupHead: readonly string[];

  constructor(redis: Redis, options: ResolvedQueueOptions) {
    this.redis = redis;
    this.keys = new MergeKeys(options.prefix);
    this.#options = options;
    this.#pushHead = [this.keys.channel, String(options.maxItems), String(options.maxBytes)];
    const maxWait = String(Math.round(options.maxWaitMs));
    this.#groupHead = [...this.#pushHead, maxWait, String(Buffer.byteLength(this.keys.queue("")))];
  }

  async push(given: PushArguments): Promise<StoredPush> {
    const { key, data, idempotency } = given;
    const keys = this.keys.pushed(
      key,
      idempotency !== undefined || data !== undefined || key.startsWith("-"),
    );
    if (idempotency !== undefined) {
      keys.push(this.keys.idempotency(key, idempotency.key), this.keys.deleted(key));
    }
    const words = data === undefined ? [] : Object.entries(data).flat();
    const memory = [String(this.#options.idempotencyMs), idempotency?.digest ?? ""];
    const stored = await this.#push(given, { keys, memory, words });
    if (typeof stored === "object") return stored;
    if (stored === "mismatch") throw new IdempotencyMismatchError(idempotency?.key ?? "");
    const allowed = `at most ${MOST_DATA_FIELDS} fields per key`;
    throw new InvalidArgumentError("data", words.length / 2, allowed);
  }

  /**
   * Stores several plain pushes, in their order, with the queue's maxWaitMs. Returns for each the stored push,
   * its error, or undefined if nothing of it was stored and it must be sent alone.
   */
  async pushGroup(
    group: readonly PlainPush[],
  ): Promise<readonly (StoredPush | ServerReplyError | undefined)[]> {
    const keys = [this.keys.timer];
    const args: (string | Buffer)[] = [String(group.length), ...this.#groupHead];
    for (const { key, words } of group) {
      this.keys.addPushed(keys, key);
      for (const word of words) args.push(word);
    }
    const replies = await this.redis.run(scripts.pushGroup, keys, args);
    return replies.map((reply, i) => {
      if (reply.failed === undefined) {
        return { at: msOf(reply.score), items: reply.items, id: String(group[i]?.words[1]) };
      }
      if (reply.failed === "") return undefined;
      return new ServerReplyError(scripts.push.name, new Error(reply.failed));
    });
  }

  /** Pushes the run of a schedule and advances the schedule; undefined if another caller did. */
  async pushRun(given: RunArguments): Promise<StoredPush | undefined> {
    const { key, run } = given;
    const keys = [...this.keys.pushed(key, true), this.keys.schedule(run.id), this.keys.schedules];
    const memory = ["run", `${run.due} ${run.next ?? "inf"} ${run.revision} ${run.id}`];
    const stored = await this.#push(given, { keys, memory, words: [] });
    return typeof stored === "object" ? stored : undefined;
  }

  async get(given: GetArguments): Promise<GetResult> {
    const { key, maxItems, maxBytes, leaseMs, token, batchId, resume, reservation } = given;
    const keys = this.keys.unit(key);
    if (reservation?.waited === true) keys.push(this.keys.paused, this.keys.pausedKeys);
    const got = await this.redis.run(scripts.get, keys, [
      ...[key, maxItems, leaseMs, token, batchId, maxBytes, resume ? 1 : 0],
      ...[reservation === undefined ? 0 : 1, reservation?.reserved ?? "", reservation?.score ?? ""],
    ]);
    if (got.status !== "ok") return got;
    const { count, heads, bodies, ...rest } = got;
    const items = readBatch(heads, bodies) ?? readItems(await this.#heads(key, count), bodies);
    return { ...rest, items };
  }

  /** The heads of a batch that is out, read one by one. */
  async #heads(key: string, count: number): Promise<readonly string[]> {
    const list = this.keys.items(key);
    const options = { key: list, repeatable: true, binary: true };
    const command = ["LRANGE", list, "0", String(count - 1)];
    const heads = await this.redis.send<readonly Buffer[]>(command, options);
    return heads.map((head) => head.toString("latin1"));
  }

  /** Returns the number of items that are left. */
  async complete({ key, token }: Held): Promise<number> {
    const args = [key, this.keys.channel, token];
    const left = await this.redis.run(scripts.complete, this.keys.unit(key), args);
    if (left < 0) throw new LeaseLostError(`key ${key}`);
    return left;
  }

  /** Releases a batch: due `delayMs` from now, at `at`, or when the lease would have ended. */
  async release(
    held: Held,
    given: { delayMs?: number; at?: number | undefined; attempted: boolean; reason: string },
  ): Promise<void> {
    const { delayMs, at, attempted, reason } = given;
    const time = delayMs !== undefined ? `+${delayMs}` : at === undefined ? "" : scoreOf(at);
    await this.#end(held, async ({ key, token }) => {
      const args = [key, this.keys.channel, token, time, attempted ? 0 : 1, reason];
      const done = await this.redis.run(scripts.release, this.keys.unit(key), args);
      return done === 0 ? -1 : done;
    });
  }

  /** Keeps only the items at these positions. They are handed out again in `delayMs`. */
  async settle(
    held: Held,
    given: { delayMs: number; batchId: string; reason: string; failed: readonly number[] },
  ): Promise<void> {
    const { delayMs, batchId, reason, failed } = given;
    await this.#end(held, ({ key, token }) => {
      const args = [key, this.keys.channel, token, delayMs, batchId, reason, ...failed];
      return this.redis.run(scripts.settle, this.keys.unit(key), args);
    });
  }

  /** Makes the items at these positions a dead letter. The rest is handed out again at once. */
  async reject(
    held: Held,
    given: { letterId: string; reason: string; positions: readonly number[] },
  ): Promise<void> {
    const { letterId, reason, positions } = given;
    await this.#end(held, ({ key, token }) => {
      const args = [key, this.keys.channel, token, letterId, reason, ...positions];
      return this.redis.run(scripts.reject, this.#burial(key, letterId), args);
    });
  }

  /** Makes a batch a dead letter. Returns its number of items; 0 if it was deleted meanwhile. */
  bury(held: Held, given: { letterId: string; reason: string }): Promise<number> {
    return this.#end(held, ({ key, token }) => {
      const args = [key, this.keys.channel, token, "", given.letterId, given.reason];
      return this.redis.run(scripts.bury, this.#burial(key, given.letterId), args);
    });
  }

  /** Makes all items of a key that no worker fetched a dead letter, unless it was fetched meanwhile. */
  async buryUnfetched(
    key: string,
    given: { start: string; letterId: string; reason: string },
  ): Promise<void> {
    const args = [key, this.keys.channel, "", given.start, given.letterId, given.reason];
    await this.redis.run(scripts.bury, this.#burial(key, given.letterId), args);
  }

  /** The due keys; with `reserveMs` they are reserved for this caller. Throws WrongKeyTypeError. */
  async due(given: { most: number; reserveMs: number }): Promise<scripts.DueReply> {
    const { timer, paused, pausedKeys } = this.keys;
    const args = [given.most, given.reserveMs];
    return this.redis.run(scripts.due, [timer, paused, pausedKeys], args).catch((error) => {
      throw isReply(error, "WRONGTYPE") ? new WrongKeyTypeError(timer, error) : error;
    });
  }

  start(key: string): Promise<scripts.StartReply> {
    const { startTimeoutMs, maxStarts, onStartTimeout } = this.#options;
    const args = [key, startTimeoutMs, maxStarts, onStartTimeout];
    return this.redis.run(scripts.start, this.keys.unit(key), args);
  }

  /** Removes a key that is not a queue from the timer, where it would be due for ever. */
  async setAside(key: string): Promise<void> {
    const options = { key: this.keys.timer, repeatable: true };
    const now = String((await this.now()) / 1_000);
    await this.redis.send(["ZADD", this.keys.broken, now, key], options);
    await this.redis.send(["ZREMRANGEBYRANK", this.keys.broken, "0", "-1001"], options);
    await this.redis.send(["ZREM", this.keys.timer, key], options);
  }

  /** The time of Redis, ms since 1970. */
  async now(): Promise<number> {
    const options = { key: this.keys.timer, repeatable: true };
    const [seconds, micros] = await this.redis.send<readonly string[]>(["TIME"], options);
    return Number(seconds) * 1_000 + Number(micros) / 1_000;
  }

  /** Returns the stored push, or throws the reason why nothing was stored. */
  async #push(
    { key, request = "", maxWaitMs, words: items, evenFull = false }: PushArguments,
    more: { keys: string[]; memory: readonly string[]; words: readonly string[] },
  ): Promise<StoredPush | "mismatch" | "full" | "ran"> {
    const { keys, memory, words } = more;
    const single = key.startsWith("-") ? (evenFull ? "2" : "1") : "0";
    const args = [
      ...["1", ...this.#pushHead, String(Math.round(maxWaitMs)), single],
      ...[...memory, request, String(MOST_DATA_FIELDS), String(words.length), ...words],
      ...[key, ...items],
    ];
    const stored = await this.redis.run(scripts.push, keys, args).catch((error) => {
      throw isReply(error, "OOM") ? new OutOfMemoryError(`an item of ${key}`, error) : error;
    });
    if (stored.status !== "ok") return stored.status;
    return { at: msOf(stored.score), items: stored.items, id: stored.id };
  }

  /** Ends a hold. If the batch was deleted meanwhile (-2), only the lock is released. */
  async #end(held: Held, say: (held: Held) => Promise<number>): Promise<number> {
    const said = await say(held);
    if (said === -1) throw new LeaseLostError(`key ${held.key}`);
    if (said !== -2) return said;
    await this.complete(held);
    return 0;
  }

  #burial(key: string, letterId: string): string[] {
    return [...this.keys.unit(key), ...this.keys.letter(letterId, key)];
  }
}

/** Ms since 1970 in the format of the timer. */
export function scoreOf(ms: number): string {
  return (ms / 1_000).toFixed(3);
}

/** A score of the timer in ms since 1970. */
export function msOf(score: string | number): number {
  return Math.round(Number(score) * 1_000);
}
