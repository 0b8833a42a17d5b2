/**
 * Says that a worker lives, what it serves and how it fares: the works keys, the group key and the
 * leases, renewed together by one script; three missed beats mean death.
 *
 * It also knows when this worker must count itself as dead: a process that was stopped for longer than
 * its ttl may find its session mapped to, and its calls run by, another.
 */
import type { Redis } from "@ropeway/core";
import { Loop } from "@ropeway/core/internal";
import { beat, leave } from "../store/scripts.ts";

/** One key that says that this worker lives. */
export interface SignOfLife {
  readonly index: string;
  readonly key: string;
  /** Its value, made anew for each beat. */
  value(): string;
}

/** What a heartbeat is given. */
export interface HeartbeatOptions {
  readonly redis: Redis;
  readonly node: string;
  readonly worker: string;
  readonly heartbeatMs: number;
  readonly signs: readonly SignOfLife[];
  /** The lease sets of the at-least-once lists. */
  readonly leases: readonly string[];
  /** Everyone else had counted this worker as dead for a while: its sessions may be elsewhere. */
  onLapsed(): void;
}

const BEATS_PER_LIFE = 3;

/** See the top of the file. */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  readonly #loop: Loop;
  readonly ttlMs: number;
  #aliveUntil = 0;
  /** When everyone else began to count this worker as alive, as far as it is known here. */
  #aliveSince = 0;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
    this.ttlMs = Math.ceil(options.heartbeatMs * BEATS_PER_LIFE);
    this.#loop = new Loop({
      tick: async () => {
        await this.#beat();
        return options.heartbeatMs;
      },
      onError: (error) => options.redis.logger.warn({ err: error }, "cannot renew a worker's keys"),
      backoff: { baseMs: 50, maxMs: options.heartbeatMs },
    });
  }

  /**
   * Whether everyone else counts this worker as alive, and has done so without a break since `at`: what
   * came before a break may be another's by now, even if this worker has come back to life meanwhile.
   */
  isAliveSince(at: number): boolean {
    return at >= this.#aliveSince && performance.now() < this.#aliveUntil;
  }

  async start(): Promise<void> {
    await this.#beat();
    this.#loop.start();
  }

  /** Stops renewing and removes the keys. */
  async close(): Promise<void> {
    await this.#loop.close();
    const { redis, signs, leases, node, worker } = this.#options;
    await redis.run(leave, this.#keys(), [worker, signs.length, ...signs.map(() => node)]);
    this.#aliveUntil = 0;
    redis.logger.debug({ node, leases: leases.length }, "worker left");
  }

  async #beat(): Promise<void> {
    const { redis, node, worker, signs } = this.#options;
    const first = this.#aliveUntil === 0;
    const lapsed = !first && performance.now() >= this.#aliveUntil;
    const sent = performance.now();
    const described = signs.flatMap((sign) => [node, sign.value()]);
    const lost = await redis.run(beat, this.#keys(), [
      this.ttlMs,
      worker,
      signs.length,
      ...described,
    ]);
    this.#aliveUntil = sent + this.ttlMs;
    if (first || lapsed || lost.length > 0) this.#aliveSince = performance.now();
    if (first || (!lapsed && lost.length === 0)) return;
    redis.logger.warn({ node, leases: lost.length }, "this worker counted as dead for a while");
    this.#options.onLapsed();
  }

  #keys(): string[] {
    const { signs, leases } = this.#options;
    return [...signs.flatMap((sign) => [sign.index, sign.key]), ...leases];
  }
}
