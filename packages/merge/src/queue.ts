/**
 * The engine: the six actions of the seed, each one script, each safe against a crash between any two.
 *
 *                    push                       get                    complete
 *   (nothing) ------------------> waiting --------------> out ----------------------> (nothing)
 *                                    ^   ^                 | |                  |
 *                       pushes add   |   '-- fresh items --|-'------------------'
 *                       items        |       behind it     |   release, or the lease ends
 *                                    '---------------------'   (the batch is handed out again as it was)
 *
 * Invariants: a key's items leave in the order they came; one holder at a time has a key's batch; what
 * was handed out stays in the list until complete() names the lock's token; a key with items is in the
 * timer.
 */
import type { Redis } from "@ropeway/core";
import { InvalidOptionError, isReply } from "@ropeway/core";
import { currentTraceparent, newToken, resolveOptions } from "@ropeway/core/internal";
import { InvalidArgumentError, LeaseLostError, LockedError, OutOfMemoryError } from "./errors.ts";
import { headRest, type Item, newItemId, readItems } from "./item.ts";
import { checkKey, MergeKeys } from "./keys.ts";
import { type MergeQueueOptions, queueOptions, type ResolvedQueueOptions } from "./options.ts";
import { PushSignal } from "./push-signal.ts";
import * as scripts from "./scripts.ts";

/** How one push is to be treated. */
export interface PushOptions {
  /** When it fires, unix seconds (fractions allowed); 0, less or nothing: now. */
  readonly ontime?: number;
  /** `always` moves the time of what is waiting, `once` keeps it. @default "once" */
  readonly overwrite?: "always" | "once";
  /** Fields for the key's data hash. */
  readonly data?: Readonly<Record<string, string>>;
  /** Makes a repetition of this push within a day store nothing and get the first answer. */
  readonly idempotencyKey?: string | undefined;
  /** What the body is; undefined means JSON. */
  readonly contentType?: string | undefined;
  /** The item's name. @default a new one */
  readonly id?: string;
  /** Overrides the queue's maxWaitMs for the batch that this push begins. */
  readonly maxWaitMs?: number | undefined;
}

/** One body of pushAll(). */
export type PushItem = Pick<PushOptions, "ontime" | "overwrite" | "contentType" | "id"> & {
  readonly body: string | Buffer;
};

/** How get() takes a batch. */
export interface GetOptions {
  /** How many items, -1 for all. @default -1 */
  readonly number?: number;
  /** How long the lock lasts; after it the batch is handed out again. */
  readonly timeoutMs: number;
  /** The lock's token ("random" in the seed). @default a new one */
  readonly token?: string;
}

/** A batch in somebody's hands. */
export interface Batch {
  readonly key: string;
  readonly token: string;
  /** Names the batch; stays the same when it is handed out again. */
  readonly id: string;
  /** 1 when it is handed out for the first time. */
  readonly attempt: number;
  readonly items: readonly Item[];
  /** How long the key had been due. */
  readonly lateMs: number;
}

/** What schedule() found. */
export type Scheduled =
  | { readonly key: string; readonly waitMs: 0 }
  /** Nothing is due; `waitMs` is undefined when nothing waits at all. */
  | { readonly key?: undefined; readonly waitMs: number | undefined };

const LOOK_AHEAD = 16;
const CHUNK = 500;

/** A timed merge queue on one prefix of a Redis. */
export class MergeQueue implements AsyncDisposable {
  readonly redis: Redis;
  readonly keys: MergeKeys;
  readonly options: ResolvedQueueOptions;
  #signal: Promise<PushSignal> | undefined;
  #seen = 0;

  constructor(redis: Redis, options?: MergeQueueOptions) {
    this.redis = redis;
    this.options = resolveOptions(queueOptions, options);
    this.keys = new MergeKeys(this.options.prefix);
    if (redis.topology === "cluster" && !this.keys.tagged) {
      throw new InvalidOptionError(
        "prefix",
        this.options.prefix,
        `a text with a hash tag on Redis Cluster, such as "{${this.options.prefix}}"`,
      );
    }
  }

  /** Stores one item; when this resolves it is in Redis. */
  async push(
    key: string,
    body: string | Buffer,
    options: PushOptions = {},
  ): Promise<scripts.Pushed> {
    const { idempotencyKey, data, maxWaitMs } = options;
    const rare = idempotencyKey !== undefined || data !== undefined || key.startsWith("-");
    const keys = this.keys.pushed(key, rare);
    if (idempotencyKey !== undefined) {
      checkIdempotencyKey(idempotencyKey);
      keys.push(this.keys.idempotency(key, idempotencyKey));
    }
    const args = this.#pushHead(key, data, maxWaitMs);
    addItem(args, body, options);
    return this.#store(key, keys, args);
  }

  /** Stores many items of one key in order, in few round trips. */
  async pushAll(
    key: string,
    items: readonly PushItem[],
    options: Pick<PushOptions, "data" | "maxWaitMs"> = {},
  ): Promise<scripts.Pushed | undefined> {
    const keys = this.keys.pushed(key, options.data !== undefined || key.startsWith("-"));
    let pushed: scripts.Pushed | undefined;
    const calls: (string | Buffer)[][] = []; // all items are checked before any is stored
    for (const [i, item] of items.entries()) {
      if (i % CHUNK === 0) calls.push(this.#pushHead(key, options.data, options.maxWaitMs));
      addItem(calls[calls.length - 1] ?? [], item.body, item);
    }
    for (const args of calls) pushed = await this.#store(key, keys, args);
    return pushed;
  }

  /** Takes the key's lock and its oldest items; LockedError if somebody has it, undefined if empty. */
  async get(key: string, options: GetOptions): Promise<Batch | undefined> {
    const { number = -1, timeoutMs, token = newToken() } = options;
    if (!Number.isSafeInteger(number) || number === 0 || number < -1) {
      throw new InvalidArgumentError("number", number, "-1 for all, or at least 1");
    }
    if (!(timeoutMs >= 1) || !Number.isFinite(timeoutMs)) {
      throw new InvalidArgumentError("timeoutMs", timeoutMs, "at least 1");
    }
    checkKey(key);
    const args = [key, number, Math.round(timeoutMs), token, newBatchId(), 0, 0, 0, "", ""];
    const got = await this.redis.run(scripts.get, this.keys.unit(key), args);
    if (got.status === "locked") throw new LockedError(key, got.retryMs);
    return got.status === "ok" ? batchOf(key, token, got) : undefined;
  }

  /** Removes exactly what was handed out, and unlocks. Returns how many items are left. */
  async complete(key: string, token: string): Promise<number> {
    const args = [key, this.keys.channel, token];
    const left = await this.redis.run(scripts.complete, this.keys.unit(key), args);
    if (left < 0) throw new LeaseLostError(key, "complete");
    return left;
  }

  /** Gives the batch back; it is handed out again at `ontime`, or when the lease would have ended. */
  async release(key: string, token: string, options: ReleaseOptions = {}): Promise<void> {
    const { ontime, attempted = true, reason = "" } = options;
    const time = ontime === undefined ? "" : secondsText(ontime);
    const args = [key, this.keys.channel, token, time, attempted ? 0 : 1, reason];
    const done = await this.redis.run(scripts.release, this.keys.unit(key), args);
    if (done === 0) throw new LeaseLostError(key, "release");
  }

  /** A due key, marked as started; or how long to wait for the next one. */
  async schedule(): Promise<Scheduled> {
    const signal = await this.#listening();
    this.#seen = signal.count;
    const found = await this.redis.run(
      scripts.due,
      [this.keys.timer, this.keys.paused, this.keys.pausedKeys],
      [LOOK_AHEAD, 0],
    );
    let again: string | undefined;
    for (const { key } of found.keys) {
      const status = await this.#start(key);
      if (status === "fresh") return { key, waitMs: 0 };
      if (status === "again") again ??= key;
    }
    // Whoever was handed the key first may never come: any caller may have it, one wins get().
    if (again !== undefined) return { key: again, waitMs: 0 };
    if (found.keys.length === LOOK_AHEAD) return { waitMs: 0 };
    return { waitMs: found.nextMs < 0 ? undefined : found.nextMs };
  }

  /** Waits for a push since the last schedule(), at most `timeoutMs`. */
  async wait(timeoutMs: number, options: WaitOptions = {}): Promise<"push" | "timeout"> {
    const signal = await this.#listening();
    return signal.wait(this.#seen, timeoutMs, options.signal);
  }

  /** Stops listening; the connection stays open, it is the caller's. */
  async close(): Promise<void> {
    const signal = this.#signal;
    this.#signal = undefined;
    await (await signal)?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #store(
    key: string,
    keys: readonly string[],
    args: readonly (string | Buffer)[],
  ): Promise<scripts.Pushed> {
    try {
      return await this.redis.run(scripts.push, keys, args);
    } catch (error) {
      if (isReply(error, "OOM")) throw new OutOfMemoryError(key, error);
      throw error;
    }
  }

  async #start(key: string): Promise<scripts.Started["status"]> {
    const { startTimeoutMs, maxStarts, onStartTimeout } = this.options;
    const unit = this.keys.unit(key);
    const args = [key, startTimeoutMs, maxStarts, onStartTimeout];
    const { status, detail } = await this.redis.run(scripts.start, unit, args);
    if (status === "dropped") {
      this.redis.logger.warn({ key, items: Number(detail) }, "dropped a key that nobody fetched");
    }
    if (status === "expired") {
      const id = newItemId();
      const reason = `handed out ${maxStarts} times and never fetched`;
      const letter = this.keys.letter(id, key);
      const burial = [key, this.keys.channel, "", detail, id, reason];
      await this.redis.run(scripts.bury, [...unit, ...letter], burial);
      this.redis.logger.warn({ key, letter: id }, "a key that nobody fetched is a dead letter now");
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

  #pushHead(
    key: string,
    data: Readonly<Record<string, string>> | undefined,
    maxWaitMs: number | undefined,
  ): (string | Buffer)[] {
    checkKey(key);
    const { maxItems, maxBytes, idempotencyMs } = this.options;
    const wait = maxWaitMs ?? this.options.maxWaitMs;
    if (!(wait >= 0)) throw new InvalidArgumentError("maxWaitMs", wait, "at least 0");
    const single = key.startsWith("-") ? "1" : "0";
    const limits = [String(maxItems), String(maxBytes), String(Math.round(wait))];
    const head = [key, this.keys.channel, ...limits, single, String(idempotencyMs)];
    if (data === undefined) return [...head, "0"];
    const words = Object.entries(data).flat();
    return [...head, String(words.length), ...words];
  }
}

/** How a batch is given back. */
export interface ReleaseOptions {
  /** The new time, unix seconds. @default unchanged: the end of the lease */
  readonly ontime?: number;
  /** False if nothing was tried, so that it does not count as an attempt. @default true */
  readonly attempted?: boolean;
  /** Why it failed, for whoever looks. */
  readonly reason?: string;
}

/** The bounds of a wait. */
export interface WaitOptions {
  readonly signal?: AbortSignal | undefined;
}

/** A name for a batch, fit to be a webhook-id: no dots. */
export function newBatchId(): string {
  return `msg_${newItemId()}`;
}

/** A taken batch from what get.lua said. */
export function batchOf(
  key: string,
  token: string,
  got: Extract<scripts.Got, { status: "ok" }>,
): Batch {
  const items = readItems(got.heads, got.bodies);
  const { delivery: id, attempt, lateMs } = got;
  return { key, token, id, attempt, items, lateMs };
}

/** Unix seconds as the timer writes them. */
export function secondsText(seconds: number): string {
  if (!Number.isFinite(seconds)) {
    throw new InvalidArgumentError("ontime", seconds, "unix seconds");
  }
  return seconds.toFixed(3);
}

/** Appends the five words of an item. */
function addItem(
  args: (string | Buffer)[],
  body: string | Buffer,
  { ontime = 0, overwrite = "once", id = newItemId(), contentType }: Omit<PushItem, "body">,
): void {
  if (overwrite !== "always" && overwrite !== "once") {
    throw new InvalidArgumentError("overwrite", overwrite, "always or once");
  }
  if (/\s/.test(id) || id === "") {
    throw new InvalidArgumentError("id", id, "a text without spaces");
  }
  const time = ontime <= 0 ? "0" : secondsText(ontime);
  args.push(time, overwrite, id, headRest(currentTraceparent(), contentType), toBytes(body));
}

function toBytes(body: string | Buffer): string | Buffer {
  if (typeof body === "string" || Buffer.isBuffer(body)) return body;
  throw new InvalidArgumentError("body", body, "a text or bytes");
}

function checkIdempotencyKey(key: string): void {
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw new InvalidArgumentError(
      "idempotencyKey",
      key,
      "1 to 255 visible ASCII characters without spaces",
    );
  }
}
