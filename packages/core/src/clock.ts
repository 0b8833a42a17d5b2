/**
 * Time that two processes can compare: that of the Redis they share. Scripts ask TIME themselves; a
 * process that must know the time without a round trip keeps an estimate:
 *
 *   sent ---- server's TIME ---- received       redis = TIME + rtt/2, at the middle of the round trip
 *
 * of which the best (shortest round trip) recent sample is kept. It runs on the monotonic clock, so a
 * local clock that is an hour off, or jumps, does not matter.
 */
import { Loop } from "./loop.ts";
import type { Redis } from "./redis.ts";
import { within } from "./wait.ts";

/** Returns the time in ms since 1970. */
export interface Clock {
  now(): number;
}

/** This machine's own clock, for what is never compared with another process. */
export const localClock: Clock = { now: () => Date.now() };

/** How often the estimate is renewed, and how fast an old sample loses its worth. */
const SAMPLE_EVERY_MS = 10_000;
const DRIFT_PER_MS = 0.0001; // 100 ppm: more than any quartz

/** The shared clock, known to within `errorMs`. */
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
    // After a failover it is another server's clock: whatever was known is worth nothing.
    this.#stopListening = redis.onReady(() => {
      this.#halfTrip = Number.POSITIVE_INFINITY;
      this.#loop.wake();
    });
  }

  /** Takes a first sample and keeps the estimate fresh until close(). */
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

  /** The largest possible difference to the server's clock. */
  get errorMs(): number {
    return this.#halfTrip + (performance.now() - this.#sampledAt) * DRIFT_PER_MS;
  }

  /** Asks once, and keeps the result if it is better than what is known. */
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
