/**
 * The time of all portals: the clock of the Redis that they share. Tokens expire and audit entries are ordered
 * by it, also if the clock of one portal's machine is wrong. Before start() it is the local clock.
 */
import { type Clock, localClock, type Redis, RedisClock } from "@ropeway/core";

/** A clock that portals can compare. */
export class PortalClock implements Clock {
  readonly #redis: Redis;
  #shared: RedisClock | undefined;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  now(): number {
    return Math.floor((this.#shared ?? localClock).now());
  }

  async start(): Promise<void> {
    this.#shared ??= await RedisClock.start(this.#redis);
  }

  async close(): Promise<void> {
    await this.#shared?.close();
  }
}
