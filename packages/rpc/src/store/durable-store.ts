/** The commands of at-least-once calls. A call is in the request list or in one in-flight list. */
import { type Redis, WrongKeyTypeError } from "@ropeway/core";
import { attempts, dead, inFlight, leases } from "../keys.ts";
import type { Dialect } from "../wire/dialect.ts";
import { insist } from "./refusal.ts";
import { reclaim, settle, take } from "./scripts.ts";

/** The options of a durable store. */
export interface DurableStoreOptions {
  readonly redis: Redis;
  readonly dialect: Dialect;
  /** The request list. */
  readonly list: string;
  readonly worker: string;
  readonly leaseMs: number;
  readonly maxRuns: number;
  readonly resultTtlSeconds: number;
}

/** A response to write; an empty text for none. */
export interface DurableResponse {
  readonly list: string;
  readonly text: string;
}

const BLOCK_MS = 5_000;
const PER_RECLAIM = 500;
/** How long a refused response is retried before the call is left to be run again. */
const INSIST_MS = 60_000;

type BlockingConnection = Awaited<ReturnType<Redis["blocking"]>>;

/** Every command about one at-least-once list. */
export class DurableStore {
  readonly #options: DurableStoreOptions;
  readonly #inFlight: string;
  #connection: BlockingConnection | undefined;

  constructor(options: DurableStoreOptions) {
    this.#options = options;
    this.#inFlight = inFlight(options.list, options.worker);
  }

  /** Waits for a call and moves it to the in-flight list. Resolves with null if none arrived. */
  async next(signal: AbortSignal): Promise<string | null> {
    const { redis, dialect, list } = this.#options;
    this.#connection ??= await redis.blocking("rpc-durable", list);
    const seconds = String(BLOCK_MS / 1_000);
    const command = ["BLMOVE", list, this.#inFlight, dialect.popSide, "LEFT", seconds];
    return this.#connection.send<string>(command, { blockMs: BLOCK_MS, signal });
  }

  /** Moves up to `count` more without waiting, and renews the lease. */
  take(count: number): Promise<readonly string[]> {
    const { redis, dialect, list, worker, leaseMs } = this.#options;
    const keys = [list, this.#inFlight, leases(list)];
    return redis.run(take, keys, [worker, leaseMs, count, dialect.popSide]);
  }

  /** The number of waiting calls. */
  async waiting(): Promise<number> {
    const { redis, list } = this.#options;
    return Number(await redis.send(["LLEN", list], { key: list, repeatable: true }));
  }

  /** Writes the response and removes the call. Returns false if another worker has it now. */
  async settle(call: string, response: DurableResponse): Promise<boolean> {
    const { redis, dialect, list, resultTtlSeconds } = this.#options;
    const keys = [this.#inFlight, attempts(list), response.list];
    const args = [call, response.text, dialect.push, resultTtlSeconds];
    const settled = await insist(() => redis.run(settle, keys, args), INSIST_MS);
    if (settled === 2) throw new WrongKeyTypeError(response.list);
    return settled === 1;
  }

  /** The newest `count` calls in this worker's in-flight list, oldest first. */
  async held(count: number): Promise<readonly string[]> {
    const command = ["LRANGE", this.#inFlight, "0", String(count - 1)];
    const options = { key: this.#inFlight, repeatable: true };
    const calls = await this.#options.redis.send<string[]>(command, options);
    return calls.reverse();
  }

  /** Workers, other than this one, whose lease ended before `now` (Redis time). */
  async ended(now: number): Promise<readonly string[]> {
    const { redis, list, worker } = this.#options;
    const set = leases(list);
    const command = ["ZRANGEBYSCORE", set, "-inf", String(Math.floor(now)), "LIMIT", "0", "1000"];
    const ended = await redis.send<string[]>(command, { key: set, repeatable: true });
    return ended.filter((each) => each !== worker);
  }

  /** Puts the calls of a dead worker back. Returns how many, and how many were moved to the dead list. */
  async reclaim(worker: string): Promise<{ readonly back: number; readonly aside: number }> {
    const { redis, dialect, list, maxRuns } = this.#options;
    const keys = [list, leases(list), inFlight(list, worker), attempts(list), dead(list)];
    const total = { back: 0, aside: 0 };
    for (;;) {
      const args = [worker, dialect.popSide, maxRuns, PER_RECLAIM];
      const [back = 0, aside = 0, left = 0] = await redis.run(reclaim, keys, args);
      total.back += back;
      total.aside += aside;
      if (left === 0 || back + aside === 0) return total;
    }
  }

  async close(): Promise<void> {
    await this.#connection?.close();
  }
}
