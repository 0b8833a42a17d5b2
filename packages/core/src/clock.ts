/**
 * Time that two processes can compare: the clock of the Redis they share. Scripts call TIME themselves. A
 * process that needs the time without a round trip keeps an estimate:
 *
 *   sent ---- server's TIME ---- received       redis = TIME + rtt/2, at the middle of the round trip
 *
 * The best recent sample (shortest round trip) is kept. The estimate uses the monotonic clock, so a
 * wrong or jumping local clock does not matter.
 */
import { Loop } from "./loop.ts";
import type { Redis } from "./redis.ts";
import { within } from "./wait.ts";

/** Returns the time in ms since 1970. */
export interface Clock {
  now(): number;
}

/** The local clock, for times that are never compared with another process. */
export const localClock: Clock = { now: () => Date.now() };

/** How often a sample is taken, and how fast an old sample becomes inaccurate. */
const SAMPLE_EVERY_MS = 10_000;
const DRIFT_PER_MS = 0.0001; // 100 ppm: more than any quartz clock

/** The shared clock, accurate to within `errorMs`. */
export class RedisClock implements Clock, AsyncDisposable {
  readonly #redis: Redis;
  readonly #loop: Loop;
  readonly #stopListening: () => void;
  #offset = 0;
  #halfTrip = Number.POSITIVE_INFINITY;
  #sampledAt = 0;

  private constructor(redis: Redis) {
    this.#redis = redis;
    this.#loop = new Loop({
      tick: async (signal) => {
        await within(this.sample(), { signal });
        return SAMPLE_EVERY_MS;
      },
      onError: (error) => redis.logger.debug({ err: error }, "cannot read the Redis clock"),
    });
    // After a failover it is another server's clock, so the earlier sample is useless.
    this.#stopListening = redis.onReady(() => {
      this.#halfTrip = Number.POSITIVE_INFINITY;
      this.#loop.wake();
    });
  }

  /** Takes a first sample and keeps the estimate up to date until close(). */
  static async start(redis: Redis): Promise<RedisClock> {
    const clock = new RedisClock(redis);
    await clock.sample();
    clock.#loop.start();
    return clock;
  }

  now(): number {
    return this.at(performance.now());
  }

  /** The time of this clock at the moment when performance.now() is `monotonic`. */
  at(monotonic: number): number {
    return monotonic + this.#offset;
  }

  /** The maximum difference from the server's clock. */
  get errorMs(): number {
    return this.#halfTrip + (performance.now() - this.#sampledAt) * DRIFT_PER_MS;
  }

  /** Takes one sample, and keeps it if it is better than the current one. */
  async sample(): Promise<void> {
    const sent = performance.now();
    const reply = await this.#redis.send<readonly string[]>(["TIME"], { repeatable: true });
    const received = performance.now();
    const halfTrip = (received - sent) / 2;
    if (halfTrip > this.errorMs) return;
    const server = Number(reply[0]) * 1_000 + Number(reply[1]) / 1_000;
    this.#offset = server - (sent + halfTrip);
    this.#halfTrip = halfTrip;
    this.#sampledAt = received;
  }

  close(): Promise<void> {
    this.#stopListening();
    return this.#loop.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
