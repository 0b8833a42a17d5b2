/**
 * The engine: six actions, each one script, and safe against a crash between any two.
 *
 *                    push                       get                    complete
 *   (nothing) ------------------> waiting --------------> out ----------------------> (nothing)
 *                                    ^   ^                 | |                  |
 *                       pushes add   |   '-- fresh items --|-'------------------'
 *                       items        |       behind it     |   release, or the lease ends
 *                                    '---------------------'   (the batch is handed out again as it was)
 *
 * Invariants: a key's items leave in the order they came; one holder at a time has a key's batch; a batch
 * that was handed out stays in the list until complete() passes the lock's token; a key with items is in
 * the timer; a push never moves the time of a batch that is out or failed.
 */
import { InvalidArgumentError, InvalidOptionError, type Redis } from "@ropeway/core";
import {
  currentTraceparent,
  LONGEST_TIMER_MS,
  newToken,
  requireRedis,
  requireSignal,
  resolveOptions,
} from "@ropeway/core/internal";
import { LockedError } from "../errors.ts";
import { checkKey, type MergeKeys } from "../keys.ts";
import { type GetResult, QueueStore, scoreOf } from "../store/queue-store.ts";
import type { StartReply } from "../store/scripts.ts";
import { type DeliveryRequest, decodeRequest, encodeRequest } from "./delivery-request.ts";
import { checkIdempotencyKey, digestOf } from "./idempotency.ts";
import { headRest, type Item, newBatchId, newItemId } from "./item.ts";
import { type MergeQueueOptions, queueOptions, type ResolvedQueueOptions } from "./options.ts";
import { PushSignal } from "./push-signal.ts";
import { Pusher } from "./pusher.ts";

/** The options of a push. */
export interface PushOptions {
  /** When it fires: a Date or ms since 1970. A time in the past, 0 or undefined means now. */
  readonly at?: Date | number | undefined;
  /** `always` changes the time of waiting items, `once` keeps it. @default "once" */
  readonly update?: "always" | "once" | undefined;
  /** Fields for the key's data hash, at most 1,000 per key. */
  readonly data?: Readonly<Record<string, string>> | undefined;
  /** A repetition of this push with the same key stores nothing and gets the first response. */
  readonly idempotencyKey?: string | undefined;
  /** The body's content type; undefined means JSON. */
  readonly contentType?: string | undefined;
  /** The item's id. @default a new one */
  readonly id?: string | undefined;
  /** Overrides the queue's maxWaitMs for the batch that this push begins. */
  readonly maxWaitMs?: number | undefined;
  /** How the batch is delivered. */
  readonly request?: DeliveryRequest | undefined;
}

/** One body of pushAll(). */
export type PushItem = Pick<PushOptions, "at" | "update" | "contentType" | "id"> & {
  readonly body: string | Buffer;
};

/** The result of a push. */
export interface Pushed {
  /** When the item's batch fires, ms since 1970. */
  readonly at: number;
  /** How many items that batch has now. */
  readonly items: number;
  /** The id of the last item that was pushed, or of the first push with the same idempotency key. */
  readonly id: string;
}

/** The options of get(). */
export interface GetOptions {
  /** The maximum number of items; -1 for as many as one batch may have. @default -1 */
  readonly number?: number | undefined;
  /** How long the lock lasts; after it the batch is handed out again. */
  readonly leaseMs: number;
  /** The lock's token. @default a new one */
  readonly token?: string | undefined;
}

/** A batch that a holder has locked. */
export interface Batch {
  readonly key: string;
  /** The lock's token: complete() and release() need it. */
  readonly token: string;
  /** The id of the batch; stays the same when it is handed out again. */
  readonly id: string;
  /** The number of times it was handed out, including this one. */
  readonly attempt: number;
  readonly items: readonly Item[];
  /** How long the key had been due. */
  readonly lateMs: number;
  /** The delivery options of the last push that gave any. */
  readonly request: DeliveryRequest;
}

/** The result of schedule(). */
export type Scheduled =
  | { readonly key: string; readonly waitMs: 0 }
  /** Nothing is due; `waitMs` is undefined if the queue is empty. */
  | { readonly key?: undefined; readonly waitMs: number | undefined };

/** The options of release(). */
export interface ReleaseOptions {
  /** When it is handed out again: a Date or ms since 1970. @default the end of the lease */
  readonly at?: Date | number | undefined;
  /** False if nothing was tried, so that it does not count as an attempt. @default true */
  readonly attempted?: boolean | undefined;
  /** Why it failed, for operators. */
  readonly reason?: string | undefined;
}

/** The bounds of a wait. */
export interface WaitOptions {
  readonly signal?: AbortSignal | undefined;
}

const LOOK_AHEAD = 16;
/** The maximum number of items and bytes of one push.lua. */
const CHUNK = 500;
const CHUNK_BYTES = 4_194_304;
/** The maximum of one get(), so that script reads are bounded. */
const MOST_ITEMS = 10_000;
const MOST_BYTES = 8_388_608;
const LONGEST_BODY = 33_554_432;
/** The end of the year 9999. */
const LATEST = 253_402_300_799_999;

/**
 * A timed merge queue on one prefix of a Redis: items pushed under a key are delivered together at a
 * chosen time.
 */
export class MergeQueue implements AsyncDisposable {
  readonly redis: Redis;
  readonly options: ResolvedQueueOptions;
  readonly #store: QueueStore;
  readonly #pusher: Pusher;
  #signal: Promise<PushSignal> | undefined;
  #seen = 0;

  constructor(redis: Redis, options?: MergeQueueOptions) {
    requireRedis(redis);
    this.redis = redis;
    this.options = resolveOptions(queueOptions, options);
    this.#store = new QueueStore(redis, this.options);
    this.#pusher = new Pusher(this.#store, this.options.maxWaitMs);
    if (redis.topology === "cluster" && !this.keys.tagged) {
      throw new InvalidOptionError(
        "prefix",
        this.options.prefix,
        `a string with a hash tag on Redis Cluster, such as "{${this.options.prefix}}"`,
      );
    }
  }

  /** The names of the queue's keys in Redis. */
  get keys(): MergeKeys {
    return this.#store.keys;
  }

  /** Stores one item. Resolves when it is in Redis. */
  push(key: string, body: string | Buffer, options: PushOptions = {}): Promise<Pushed> {
    try {
      return this.#push(key, body, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Throws if an argument is wrong. Not async: a promise per layer costs more than the checks. */
  #push(key: string, body: string | Buffer, options: PushOptions): Promise<Pushed> {
    checkKey(key);
    const { idempotencyKey, data, contentType } = options;
    const maxWaitMs = this.#maxWait(options.maxWaitMs);
    const request = encodeRequest(options.request);
    const words: (string | Buffer)[] = [];
    addItem(words, body, options);
    let idempotency: { key: string; digest: string } | undefined;
    if (idempotencyKey !== undefined) {
      checkIdempotencyKey(idempotencyKey);
      idempotency = { key: idempotencyKey, digest: digestOf(body, contentType, request) };
    }
    if (data !== undefined) checkData(data);
    const plain = data === undefined && request === undefined && idempotency === undefined;
    if (plain && maxWaitMs === this.options.maxWaitMs && !key.startsWith("-")) {
      return this.#pusher.add(key, words);
    }
    this.#pusher.flush(); // a key's items are stored in the order of their pushes
    return this.#store.push({ key, data, maxWaitMs, request, idempotency, words });
  }

  /** Stores many items of one key in order, in few round trips; undefined if there are none. */
  async pushAll(
    key: string,
    items: readonly PushItem[],
    options: Pick<PushOptions, "data" | "maxWaitMs" | "request"> = {},
  ): Promise<Pushed | undefined> {
    checkKey(key);
    const { data } = options;
    const maxWaitMs = this.#maxWait(options.maxWaitMs);
    const request = encodeRequest(options.request);
    if (data !== undefined) checkData(data);
    const calls: (string | Buffer)[][] = []; // all items are checked before any is stored
    let bytes = Number.POSITIVE_INFINITY;
    for (const item of items) {
      if (bytes + item.body.length > CHUNK_BYTES || (calls.at(-1)?.length ?? 0) >= CHUNK * 4) {
        calls.push([]);
        bytes = 0;
      }
      bytes += item.body.length;
      addItem(calls.at(-1) ?? [], item.body, item);
    }
    this.#pusher.flush();
    let pushed: Pushed | undefined;
    for (const words of calls) {
      pushed = await this.#store.push({ key, data, maxWaitMs, request, words });
    }
    return pushed;
  }

  /**
   * Takes the key's lock and its oldest items; undefined if the key is empty. Throws LockedError if
   * another caller has the lock. Returns at most 10,000 items and 8 MiB.
   */
  async get(key: string, options: GetOptions): Promise<Batch | undefined> {
    const { number = -1, leaseMs, token = newToken() } = options;
    if (!Number.isSafeInteger(number) || number === 0 || number < -1) {
      throw new InvalidArgumentError("number", number, "-1, or at least 1");
    }
    if (!(leaseMs >= 1) || !(leaseMs <= LATEST)) {
      throw new InvalidArgumentError("leaseMs", leaseMs, "at least 1");
    }
    if (typeof token !== "string" || token === "") {
      throw new InvalidArgumentError("token", token, "a string that is not empty");
    }
    checkKey(key);
    const got = await this.#store.get({
      ...{ key, token, batchId: newBatchId(), resume: false },
      maxItems: number === -1 ? MOST_ITEMS : Math.min(number, MOST_ITEMS),
      maxBytes: MOST_BYTES,
      leaseMs: Math.round(leaseMs),
    });
    if (got.status === "locked") throw new LockedError(key, got.retryMs);
    return got.status === "ok" ? batchOf({ key, token }, got) : undefined;
  }

  /**
   * Removes exactly the batch that was handed out, and unlocks. Returns the number of items that are
   * left. Throws LeaseLostError if the token does not hold the lock.
   */
  async complete(key: string, token: string): Promise<number> {
    checkKey(key);
    return this.#store.complete({ key, token });
  }

  /** Releases the batch. Throws LeaseLostError if the token does not hold the lock. */
  async release(key: string, token: string, options: ReleaseOptions = {}): Promise<void> {
    checkKey(key);
    const { attempted = true, reason = "" } = options;
    const at = options.at === undefined ? undefined : timeOf(options.at);
    await this.#store.release({ key, token }, { at, attempted, reason });
  }

  /** A due key, marked as started, or the time to wait for the next one. */
  async schedule(): Promise<Scheduled> {
    const signal = await this.#listening();
    this.#seen = signal.count;
    const found = await this.#store.due({ most: LOOK_AHEAD, reserveMs: 0 });
    let again: string | undefined;
    for (const { key } of found.keys) {
      const status = await this.#start(key);
      if (status === "fresh") return { key, waitMs: 0 };
      if (status === "again") again ??= key;
    }
    // The first caller may never fetch it, so every caller gets it, and one wins get().
    if (again !== undefined) return { key: again, waitMs: 0 };
    if (found.keys.length === LOOK_AHEAD) return { waitMs: 0 };
    return { waitMs: found.nextMs < 0 ? undefined : found.nextMs };
  }

  /** Waits for a push since the last schedule(), at most `timeoutMs`. */
  async wait(timeoutMs: number, options: WaitOptions = {}): Promise<"push" | "timeout"> {
    if (!(timeoutMs >= 0)) throw new InvalidArgumentError("timeoutMs", timeoutMs, "at least 0");
    requireSignal(options.signal);
    const signal = await this.#listening();
    return signal.wait(this.#seen, Math.min(timeoutMs, LONGEST_TIMER_MS), options.signal);
  }

  /** Waits for the pushes under way and stops listening. The Redis connection belongs to the caller and stays open. */
  async close(): Promise<void> {
    await this.#pusher.settled();
    const signal = this.#signal;
    this.#signal = undefined;
    await (await signal)?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #start(key: string): Promise<StartReply["status"]> {
    const { status, detail } = await this.#store.start(key);
    if (status === "dropped") {
      this.redis.logger.warn(
        { key, items: Number(detail) },
        "a key that no worker fetched was dropped",
      );
    }
    if (status === "expired") {
      const letterId = newItemId();
      const reason = `handed out ${this.options.maxStarts} times and never fetched`;
      await this.#store.buryUnfetched(key, { start: detail, letterId, reason });
      this.redis.logger.warn(
        { key, letter: letterId },
        "a key that no worker fetched became a dead letter",
      );
    }
    return status;
  }

  #listening(): Promise<PushSignal> {
    this.#signal ??= PushSignal.open(this.redis, this.keys.channel).catch((error) => {
      this.#signal = undefined;
      throw error;
    });
    return this.#signal;
  }

  #maxWait(given: number | undefined): number {
    const wait = given ?? this.options.maxWaitMs;
    if (!(wait >= 0) || !(wait <= LATEST)) {
      throw new InvalidArgumentError("maxWaitMs", wait, "a number of milliseconds of at least 0");
    }
    return wait;
  }
}

/** Makes a taken batch from the reply of get.lua. */
export function batchOf(
  held: { readonly key: string; readonly token: string },
  got: Extract<GetResult, { status: "ok" }>,
): Batch {
  const { delivery: id, attempt, items, lateMs } = got;
  return { ...held, id, attempt, items, lateMs, request: decodeRequest(got.request) };
}

/** Converts to ms since 1970. Throws InvalidArgumentError for a time after the year 9999. */
export function timeOf(at: Date | number): number {
  const ms = at instanceof Date ? at.getTime() : at;
  if (typeof ms === "number" && ms <= LATEST) return ms;
  throw new InvalidArgumentError("at", at, "a Date or ms since 1970, not beyond the year 9999");
}

/** Checks an item and appends its four words. */
export function addItem(
  words: (string | Buffer)[],
  body: string | Buffer,
  { at = 0, update = "once", id = newItemId(), contentType }: Omit<PushItem, "body">,
): void {
  if (update !== "always" && update !== "once") {
    throw new InvalidArgumentError("update", update, "always or once");
  }
  if (typeof id !== "string" || !/^[\x21-\x7e]{1,255}$/.test(id)) {
    throw new InvalidArgumentError("id", id, "1 to 255 visible ASCII characters without spaces");
  }
  if (contentType !== undefined && !/^[\x20-\x7e]{1,255}$/.test(contentType)) {
    throw new InvalidArgumentError("contentType", contentType, "1 to 255 visible ASCII characters");
  }
  if (typeof body !== "string" && !Buffer.isBuffer(body)) {
    throw new InvalidArgumentError("body", body, "a string or a Buffer");
  }
  if (body.length > LONGEST_BODY) {
    throw new InvalidArgumentError("body", `${body.length} bytes`, `at most ${LONGEST_BODY} bytes`);
  }
  const ms = timeOf(at);
  const time = ms <= 0 ? "0" : scoreOf(ms);
  const mode = update === "always" ? "a" : "o";
  words.push(time, id, mode + headRest(currentTraceparent(), contentType), body);
}

function checkData(data: Readonly<Record<string, string>>): void {
  const all = Object.entries(data);
  const isFit = all.length <= 1_000 && all.every(([, value]) => typeof value === "string");
  const size = isFit ? all.reduce((sum, [name, value]) => sum + name.length + value.length, 0) : 0;
  if (isFit && size <= 65_536) return;
  throw new InvalidArgumentError(
    "data",
    all.length <= 3 ? data : `${all.length} fields`,
    "at most 1,000 fields of strings, together at most 65536 characters",
  );
}
