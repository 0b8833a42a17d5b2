/** A worker's heartbeat: renews the leases of all jobs it holds, three times per lease. */
import { LeaseLostError } from "@ropeway/core";
import { Loop } from "@ropeway/core/internal";
import { JobCancelledError } from "../errors.ts";
import type { QueueStore } from "../store/queue-store.ts";
import type { Attempt } from "./attempt.ts";

/** The worker that reports. */
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
    // A failed heartbeat is repeated soon enough to save the leases.
    const backoff = { baseMs: 20, maxMs: Math.max(20, options.leaseMs / 6) };
    this.#loop = new Loop({ tick: () => this.#beat(), onError: options.onError, backoff });
  }

  start(): void {
    this.#loop.start();
  }

  /** Sends a heartbeat now, for example because a job was cancelled. */
  wake(): void {
    this.#loop.wake();
  }

  async close(): Promise<void> {
    await this.#loop.close();
    await this.#store.removeWorker(this.#options.worker);
  }

  /** Takes over the leases of jobs that were handed over. Sent before any command of their handlers. */
  claim(attempts: readonly Attempt[]): void {
    if (attempts.length > 0) this.#renew(attempts).catch(this.#options.onError);
  }

  async #beat(): Promise<number> {
    const { leaseMs, held } = this.#options;
    await this.#renew([...held.values()]);
    return leaseMs / 3;
  }

  async #renew(renewed: readonly Attempt[]): Promise<void> {
    const { leaseMs, held } = this.#options;
    const sentAt = performance.now();
    const { lost, cancelled } = await this.#store.renew({ ...this.#options, held: renewed });
    const gone = new Set(lost);
    for (const attempt of renewed) {
      // Ended and reported meanwhile, or taken again: then another attempt has the id.
      if (held.get(attempt.id) !== attempt) continue;
      if (gone.has(attempt.id)) {
        this.#options.onLost(attempt, new LeaseLostError(`job ${attempt.id}`, attempt.fence));
        continue;
      }
      attempt.safeUntil = sentAt + leaseMs;
      attempt.holder = this.#options.worker; // also for a job that was handed over
      const reason = cancelled.get(attempt.id);
      if (reason === undefined || attempt.cancelled) continue;
      attempt.cancelled = true;
      attempt.abort(new JobCancelledError(attempt.id, reason));
    }
  }
}
