/**
 * Fetches the calls of one at-least-once list, and brings back those of workers that died.
 *
 *   request list --BLMOVE/take--> in-flight list of this worker --settle--> answered and forgotten
 *         ^                                  |
 *         +---------- reclaim ---------------+   its lease (renewed with each heartbeat) has ended
 *
 * A call is at every instant in exactly one of the two lists until its answer is written.
 */
import type { Redis } from "@ropeway/core";
import { type BlockingConnection, Loop } from "@ropeway/core/internal";
import { attempts, dead, inFlight, leases } from "../keys.ts";
import { reclaim, settle, take } from "../store/scripts.ts";
import type { Dialect } from "../wire/dialect.ts";

/** What a durable is given. */
export interface DurableFetcherOptions {
  readonly redis: Redis;
  readonly dialect: Dialect;
  readonly list: string;
  readonly worker: string;
  readonly leaseMs: number;
  readonly maxRuns: number;
  readonly resultTtlSeconds: number;
  /** Waits for a free slot and says how many there are. */
  freeSlots(signal: AbortSignal): Promise<number>;
  /** Redis time in ms. */
  now(): number;
  onCall(text: string): void;
}

const BLOCK_MS = 5_000;

/** See the top of the file. */
export class DurableFetcher {
  readonly #options: DurableFetcherOptions;
  readonly #inFlight: string;
  readonly #fetcher: Loop;
  readonly #reaper: Loop;
  /** The calls of our in-flight list that this process knows of. */
  readonly #held = new Set<string>();
  #connection: BlockingConnection | undefined;
  #unsure = true;

  constructor(options: DurableFetcherOptions) {
    this.#options = options;
    this.#inFlight = inFlight(options.list, options.worker);
    const { logger } = options.redis;
    this.#fetcher = new Loop({
      tick: (signal) => this.#fetch(signal),
      onError: (error) => {
        this.#unsure = true;
        logger.warn({ err: error, list: options.list }, "cannot fetch calls yet");
      },
      backoff: { baseMs: 10, maxMs: 1_000 },
    });
    this.#reaper = new Loop({
      tick: () => this.#reap(),
      onError: (error) =>
        logger.warn({ err: error, list: options.list }, "cannot reclaim calls yet"),
    });
  }

  start(): void {
    this.#fetcher.start();
    this.#reaper.start();
  }

  /** Writes the answer (empty for none) and forgets the call; false if another worker has it now. */
  async settle(call: string, answer: { list: string; text: string }): Promise<boolean> {
    const { redis, dialect, list, resultTtlSeconds } = this.#options;
    const keys = [this.#inFlight, attempts(list), answer.list];
    const args = [call, answer.text, dialect.push, resultTtlSeconds];
    try {
      return (await redis.run(settle, keys, args)) === 1;
    } catch (error) {
      this.#unsure = true; // still in the in-flight list, if Redis has not written the answer
      throw error;
    } finally {
      this.#held.delete(call);
    }
  }

  /** Stops fetching. */
  async stop(): Promise<void> {
    await Promise.all([this.#fetcher.close(), this.#reaper.close()]);
    await this.#connection?.close();
  }

  async #fetch(signal: AbortSignal): Promise<number> {
    const { redis, dialect, list, worker, leaseMs } = this.#options;
    const free = await this.#options.freeSlots(signal);
    if (free <= 0) return 0;
    if (this.#unsure) await this.#recover();
    this.#connection ??= await redis.blocking("rpc-durable", list);
    const wait = [
      "BLMOVE",
      list,
      this.#inFlight,
      dialect.popSide,
      "LEFT",
      String(BLOCK_MS / 1_000),
    ];
    const first = await this.#connection.send<string>(wait, { blockMs: BLOCK_MS, signal });
    if (first === null) return 0;
    this.#hold(first);
    const keys = [list, this.#inFlight, leases(list)];
    const args = [worker, leaseMs, free - 1, dialect.popSide];
    for (const call of await redis.run(take, keys, args)) this.#hold(call);
    return 0;
  }

  #hold(call: string): void {
    this.#held.add(call);
    this.#options.onCall(call);
  }

  /** A reply that was lost may have moved calls into our list without our knowing. */
  async #recover(): Promise<void> {
    const command = ["LRANGE", this.#inFlight, "0", "-1"];
    const options = { key: this.#inFlight, repeatable: true };
    const calls = await this.#options.redis.send<string[]>(command, options);
    this.#unsure = false;
    for (const call of calls.reverse()) if (!this.#held.has(call)) this.#hold(call);
  }

  async #reap(): Promise<number> {
    const { redis, dialect, list, leaseMs, maxRuns } = this.#options;
    const set = leases(list);
    const now = String(Math.floor(this.#options.now()));
    const command = ["ZRANGEBYSCORE", set, "-inf", now, "LIMIT", "0", "1000"];
    const ended = await redis.send<string[]>(command, { key: set, repeatable: true });
    for (const worker of ended) {
      if (worker === this.#options.worker) continue;
      const keys = [list, set, inFlight(list, worker), attempts(list), dead(list)];
      const args = [worker, dialect.popSide, maxRuns];
      const [back = 0, aside = 0] = await redis.run(reclaim, keys, args);
      if (back + aside > 0) redis.logger.warn({ list, worker, back, aside }, "calls reclaimed");
    }
    return leaseMs / 3;
  }
}
