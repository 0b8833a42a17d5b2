/**
 * Polls the counters of scripted tasks at their target. A status is only the last one that a node wrote. A
 * growing counter proves that a node runs the task.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type Redis } from "@ropeway/core";

const EVERY_MS = 100;

/** Measures the longest time for which any of the tasks was idle. */
export class IdleWatch {
  readonly #redis: Redis;
  readonly #ids: readonly string[];
  readonly #stop = new AbortController();
  readonly #watching: Promise<void>;
  #grew: { count: number; at: number }[] = [];
  #longestMs = 0;

  private constructor(redis: Redis, ids: readonly string[]) {
    this.#redis = redis;
    this.#ids = ids;
    this.#watching = this.#watch();
  }

  /** Starts polling. All tasks must be running. */
  static async start(url: string, ids: readonly string[]): Promise<IdleWatch> {
    return new IdleWatch(await connect(url), ids);
  }

  /** The longest pause so far, including current pauses. */
  get longestMs(): number {
    const now = performance.now();
    return Math.round(Math.max(this.#longestMs, ...this.#grew.map(({ at }) => now - at)));
  }

  /** Subtracts the time without a store from the current pauses. */
  excuse(awayMs: number): void {
    const now = performance.now();
    this.#grew = this.#grew.map(({ count, at }) => ({ count, at: Math.min(now, at + awayMs) }));
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#watching;
    await this.#redis.close();
  }

  async #watch(): Promise<void> {
    const keys = this.#ids.map((id) => `ropeway:scripted:{${id}}:count`);
    while (!this.#stop.signal.aborted) {
      const counts = await Promise.all(keys.map((key) => this.#redis.send(["GET", key])));
      const now = performance.now();
      this.#grew = counts.map(Number).map((count, n) => {
        const before = this.#grew[n] ?? { count: -1, at: now };
        if (count === before.count) return before;
        this.#longestMs = Math.max(this.#longestMs, now - before.at);
        return { count, at: now };
      });
      await sleep(EVERY_MS);
    }
  }
}
