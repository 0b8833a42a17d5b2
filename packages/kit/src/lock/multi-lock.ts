/**
 * Several locks as one. They are acquired one after the other in the order of their names, so two
 * processes that want the same locks in any order cannot block each other.
 */

import { InvalidArgumentError, type Logger, type Redis } from "@ropeway/core";
import { guardSignal, reasonOf, requireFunction, requireRedis } from "@ropeway/core/internal";
import { NotAcquiredError } from "../errors.ts";
import { checkName } from "../keyspace.ts";
import { whileHeld } from "../while-held.ts";
import type { HeldLock } from "./held-lock.ts";
import { Lock } from "./lock.ts";
import {
  type AcquireOptions,
  type LockOptions,
  resolveAcquireOptions,
  resolveLockOptions,
} from "./options.ts";

/** Locks of several names, held together. */
export class HeldLocks implements AsyncDisposable {
  readonly locks: readonly HeldLock[];
  readonly #signal: AbortSignal;

  /** @internal Created by MultiLock, never by users. */
  constructor(locks: readonly HeldLock[], logger: Logger) {
    this.locks = locks;
    const names = locks.map(({ name }) => name);
    const signal = AbortSignal.any(locks.map((lock) => lock.signal));
    this.#signal = guardSignal(signal, (error) => {
      logger.error({ err: reasonOf(error), locks: names }, "an abort listener failed");
    });
  }

  /** Aborts when any of the locks is lost. */
  get signal(): AbortSignal {
    for (const lock of this.locks) void lock.held; // the timer may be late after a pause of the process
    return this.#signal;
  }

  /** The fence of each lock, by name. */
  get fences(): ReadonlyMap<string, number> {
    return new Map(this.locks.map((lock) => [lock.name, lock.fence]));
  }

  /** Releases all of them. True if all were still held. */
  async release(): Promise<boolean> {
    const released = await Promise.allSettled(
      [...this.locks].reverse().map((lock) => lock.release()),
    );
    const failed = released.find((outcome) => outcome.status === "rejected");
    if (failed !== undefined) throw failed.reason;
    return released.every((outcome) => outcome.status === "fulfilled" && outcome.value);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}

/** Locks of several names that are acquired together or not at all. */
export class MultiLock {
  readonly names: readonly string[];
  readonly #locks: readonly Lock[];
  readonly #options: Required<LockOptions>;
  readonly #redis: Redis;

  constructor(redis: Redis, names: readonly string[], options?: LockOptions) {
    requireRedis(redis);
    if (!Array.isArray(names) || names.length === 0) {
      throw new InvalidArgumentError("names", names, "an array of at least one name");
    }
    for (const name of names) checkName("the name of a lock", name);
    this.names = [...new Set(names)].sort();
    this.#locks = this.names.map((name) => new Lock(redis, name, options));
    this.#options = resolveLockOptions(options);
    this.#redis = redis;
  }

  /** Waits for all locks; `waitMs` bounds the whole wait. Throws NotAcquiredError and holds none. */
  async acquire(options: Omit<AcquireOptions, "token"> = {}): Promise<HeldLocks> {
    const { waitMs } = resolveAcquireOptions(this.#options, options);
    const until = performance.now() + (waitMs ?? Number.POSITIVE_INFINITY);
    const notAcquired = (what: string) =>
      new NotAcquiredError(`${what} of ${JSON.stringify(this.names)}`, waitMs ?? 0);
    for (;;) {
      const held = await this.#acquire(options, until).catch((error) => {
        throw error instanceof NotAcquiredError ? notAcquired(String(error.details.what)) : error;
      });
      if (held.locks.every((lock) => lock.held)) return held;
      // One was lost while the others were waited for. All of them, or none.
      this.#giveUp(held.locks);
      if (performance.now() >= until) throw notAcquired("one");
    }
  }

  async #acquire(options: Omit<AcquireOptions, "token">, until: number): Promise<HeldLocks> {
    const held: HeldLock[] = [];
    try {
      for (const lock of this.#locks) {
        const leftMs = Math.max(0, Math.ceil(until - performance.now()));
        const waitMs = until === Number.POSITIVE_INFINITY ? null : leftMs;
        held.push(await lock.acquire({ ...options, waitMs }));
      }
      return new HeldLocks(held, this.#redis.logger);
    } catch (error) {
      this.#giveUp(held);
      throw error;
    }
  }

  /** Releases in the background: while Redis is unreachable, the caller waits no longer than it said. */
  #giveUp(held: readonly HeldLock[]): void {
    for (const lock of held) {
      lock.release().catch((error) => {
        this.#redis.logger.warn({ err: error, lock: lock.name }, "cannot give up a lock");
      });
    }
  }

  /** Runs `work` under all locks, and releases them whatever happens. */
  async run<T>(
    work: (held: HeldLocks) => T | Promise<T>,
    options?: Omit<AcquireOptions, "token">,
  ): Promise<T> {
    requireFunction("work", work);
    return whileHeld(await this.acquire(options), work);
  }
}
