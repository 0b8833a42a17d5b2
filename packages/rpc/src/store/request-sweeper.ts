/**
 * Removes outdated calls from the request lists of services without workers. Such a
 * list must not simply expire: calls of other programs may wait in it, and these have no deadline.
 *
 *   push --> index: list -> when its last Ropeway call is outdated --due--> sweep.lua removes outdated calls
 *
 * The clients of a namespace do this for each other, so the calls of a killed client are removed too. A
 * worker that comes back drops outdated calls by itself.
 */
import type { Clock, Redis } from "@ropeway/core";
import type { Dialect } from "../wire/dialect.ts";
import { sweep } from "./scripts.ts";

const MARGIN_MS = 60_000;
const LISTS_AT_ONCE = 100;
const CALLS_AT_ONCE = 500;
const BYTES_AT_ONCE = 2_000_000;

/** Removes the outdated calls of one namespace. */
export class RequestSweeper {
  readonly #redis: Redis;
  readonly #clock: Clock;
  readonly #index: string;
  readonly #side: "RIGHT" | "LEFT";

  constructor(redis: Redis, dialect: Dialect, clock: Clock) {
    this.#redis = redis;
    this.#clock = clock;
    this.#index = dialect.keys.requestIndex();
    this.#side = dialect.popSide;
  }

  /** Records that calls were pushed into these lists, each with a timeout in seconds. Sweeps the lists that are due. */
  async note(lists: ReadonlyMap<string, number>): Promise<void> {
    const now = this.#clock.now();
    const scored = [...lists].flatMap(([list, seconds]) => [
      String(Math.ceil(now + seconds * 1_000 + MARGIN_MS)),
      list,
    ]);
    await this.#ask(["ZADD", this.#index, "GT", ...scored]);
    await this.sweep(now);
  }

  /** Sweeps the lists whose last call was outdated before `now` (Redis time). */
  async sweep(now: number): Promise<void> {
    const due = ["ZRANGEBYSCORE", this.#index, "-inf", String(Math.floor(now)), "LIMIT", "0"];
    for (const list of await this.#ask<string[]>([...due, String(LISTS_AT_ONCE)])) {
      const args = [this.#side, CALLS_AT_ONCE, BYTES_AT_ONCE];
      await this.#redis.run(sweep, [this.#index, list], args);
    }
  }

  #ask<T>(command: readonly string[]): Promise<T> {
    return this.#redis.send(command, { key: this.#index, repeatable: true }) as Promise<T>;
  }
}
