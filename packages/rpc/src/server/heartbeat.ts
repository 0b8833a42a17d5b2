/**
 * Reports that a worker is alive, which services it serves, and its statistics: the works keys, the group
 * key and the leases, renewed together by one script; after three missed beats the worker counts as dead.
 *
 * It also knows when this worker must count itself as dead: a process that was stopped for longer than
 * its ttl may find its session mapped to, and its calls run by, another.
 */
import type { Redis } from "@ropeway/core";
import { Loop } from "@ropeway/core/internal";
import { type Beat, RegistryStore, type SignOfLife } from "../store/registry-store.ts";

/** What a heartbeat is given. */
export interface HeartbeatOptions {
  readonly redis: Redis;
  readonly node: string;
  readonly worker: string;
  readonly heartbeatMs: number;
  readonly signs: readonly SignOfLife[];
  /** The lease sets of the at-least-once lists. */
  readonly leases: readonly string[];
  /** The worker counted as dead for a while: its sessions may be elsewhere. */
  onLapsed(): void;
  /** The worker's keys were gone, or are new: the registry has to be written. */
  onGone(): Promise<void>;
  onError(error: unknown): void;
}

const BEATS_PER_LIFE = 3;

/** The signs of life of one worker. */
export class Heartbeat {
  readonly ttlMs: number;
  readonly #options: HeartbeatOptions;
  readonly #store: RegistryStore;
  readonly #beat: Beat;
  readonly #loop: Loop;
  #aliveUntil = 0;
  /** Since when the worker has counted as alive without a break, as far as it is known here. */
  #aliveSince = 0;
  #unregistered = true;

  constructor(options: HeartbeatOptions) {
    const { redis, node, worker, signs, leases, heartbeatMs } = options;
    this.#options = options;
    this.ttlMs = Math.ceil(heartbeatMs * BEATS_PER_LIFE);
    this.#store = new RegistryStore(redis);
    this.#beat = { node, worker, signs, leases, ttlMs: this.ttlMs };
    this.#loop = new Loop({
      tick: async () => {
        await this.#renew();
        return heartbeatMs;
      },
      onError: (error) => options.onError(error),
      backoff: { baseMs: 50, maxMs: heartbeatMs },
    });
  }

  /**
   * Whether the worker counts as alive, and has done so without a break since `at`: calls that came before
   * a break may be another worker's by now, even if this worker has come back to life meanwhile.
   */
  isAliveSince(at: number): boolean {
    return at >= this.#aliveSince && performance.now() < this.#aliveUntil;
  }

  async start(): Promise<void> {
    await this.#renew();
    this.#loop.start();
  }

  /** Stops renewing and removes the keys. */
  async close(): Promise<void> {
    await this.#loop.close();
    this.#aliveUntil = 0;
    await this.#store.leave(this.#beat);
  }

  async #renew(): Promise<void> {
    const first = this.#aliveUntil === 0;
    const sent = performance.now();
    const lapsed = !first && sent >= this.#aliveUntil;
    const { gone, lost } = await this.#store.beat(this.#beat);
    const dead = lapsed || (!first && gone + lost > 0);
    this.#aliveUntil = sent + this.ttlMs;
    if (first || dead) this.#aliveSince = performance.now();
    if (dead) {
      this.#options.redis.logger.warn({ node: this.#options.node }, "the worker counted as dead");
      this.#options.onLapsed();
    }
    if (gone > 0) this.#unregistered = true;
    if (!this.#unregistered) return;
    await this.#options.onGone();
    this.#unregistered = false;
  }
}
