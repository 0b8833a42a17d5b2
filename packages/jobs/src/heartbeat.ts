/** A worker's sign of life: renews the leases of all jobs it holds, three times per lease. */
import { Loop } from "@ropeway/core/internal";
import type { Attempt } from "./attempt.ts";
import { JobCancelledError, LeaseLostError } from "./errors.ts";
import type { QueueStore } from "./store.ts";

/** Who lives. */
export interface HeartbeatOptions {
  readonly worker: string;
  readonly leaseMs: number;
  /** JSON that lists of workers show. */
  readonly description: string;
  readonly held: ReadonlyMap<string, Attempt>;
  onLost(attempt: Attempt, error: LeaseLostError): void;
  onError(error: unknown): void;
}

/** One queue's heartbeat in one worker. */
export class Heartbeat {
  readonly #store: QueueStore;
  readonly #options: HeartbeatOptions;
  readonly #loop: Loop;

  constructor(store: QueueStore, options: HeartbeatOptions) {
    this.#store = store;
    this.#options = options;
    this.#loop = new Loop({ tick: () => this.#beat(), onError: options.onError });
  }

  start(): void {
    this.#loop.start();
  }

  /** Beats now, for example because a job was cancelled. */
  wake(): void {
    this.#loop.wake();
  }

  async close(): Promise<void> {
    await this.#loop.close();
    const { workers } = this.#store.keys;
    await this.#store.send("HDEL", workers, this.#options.worker);
  }

  async #beat(): Promise<number> {
    const { worker, leaseMs, description, held } = this.#options;
    const sent = performance.now();
    const tokens = new Map([...held.values()].map((attempt) => [attempt.id, attempt.token]));
    const { lost, cancelled } = await this.#store.renew(worker, { leaseMs, description }, tokens);
    for (const [id, token] of tokens) {
      const attempt = held.get(id);
      if (attempt?.token === token) attempt.safeUntil = sent + leaseMs;
    }
    for (const id of lost) {
      const attempt = held.get(id);
      // Ended and reported meanwhile, or taken anew: then it is another token's business.
      if (attempt === undefined || tokens.get(id) !== attempt.token) continue;
      this.#options.onLost(attempt, new LeaseLostError(id, attempt.fence));
    }
    for (const [id, reason] of cancelled) {
      const attempt = held.get(id);
      if (attempt === undefined || attempt.cancelled) continue;
      attempt.cancelled = true;
      attempt.abort(new JobCancelledError(id, reason));
    }
    return leaseMs / 3;
  }
}
