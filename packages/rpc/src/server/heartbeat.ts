/**
 * Reports that a worker is alive, which services it serves, and its statistics: the works keys, the group
 * key and the leases, renewed together by one script. After three missed beats the worker counts as dead.
 *
 * It also detects when this worker must treat itself as dead: while a process was suspended for longer than
 * its ttl, its sessions may have been mapped to, and its calls run by, another worker.
 */
import type { Redis } from "@ropeway/core";
import { Loop } from "@ropeway/core/internal";
import { type Beat, RegistryStore, type SignOfLife } from "../store/registry-store.ts";

/** The options of a heartbeat. */
export interface HeartbeatOptions {
  readonly redis: Redis;
  readonly node: string;
  readonly worker: string;
  readonly heartbeatMs: number;
  readonly signs: readonly SignOfLife[];
  /** The lease sets of the at-least-once lists. */
  readonly leases: readonly string[];
  /** Called when the worker counted as dead for a while: its sessions may be on other nodes. */
  onLapsed(): void;
  /** Called when the worker's keys were gone, or are new: the registry has to be written. */
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
  /** Since when the worker has counted as alive without a break, as far as this process knows. */
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
   * Whether the worker counts as alive, and has done so without a break since `at`. Calls that arrived before
   * a break may belong to another worker by now, even if this worker is alive again.
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
