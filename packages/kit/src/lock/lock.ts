/**
 * A lock in Redis, on the documented key: `lock:<name>` holds the token of the holder.
 *
 *   acquire()   one command if the lock is free. Otherwise the same command takes a place in the queue,
 *               and the process blocks on its wake list until a release hands the lock over.
 *   release()   one command, which also picks the next live waiter.
 *
 * What a Redis lock does not guarantee: a holder that is paused longer than `ttlMs`, or a Redis that
 * loses its data, can lead to two processes that both believe they hold it. The `signal` of the first one
 * aborts as soon as it runs again. Only `fence`, checked by the resource itself, excludes it for certain.
 */
import { AbortedError, LeaseLostError, type Redis } from "@ropeway/core";
import { requireFunction, requireRedis } from "@ropeway/core/internal";
import { acquiring, bounded, prolonged } from "../bounded.ts";
import { NotAcquiredError } from "../errors.ts";
import { safetyOf } from "../lease.ts";
import { Line, patiently } from "../line.ts";
import { whileHeld } from "../while-held.ts";
import { type HeldLock, type Holding, LockHolding, lockToken } from "./held-lock.ts";
import {
  type AcquireOptions,
  checkReader,
  type LockOptions,
  resolveAcquireOptions,
  resolveLockOptions,
} from "./options.ts";
import { type LockMode, LockStore } from "./store.ts";

/** The interface of a lock, and of each side of a read/write lock. */
export interface Lockable {
  readonly name: string;
  /** Waits for the lock. Throws NotAcquiredError after `waitMs`, AbortedError if the signal aborts. */
  acquire(options?: AcquireOptions): Promise<HeldLock>;
  /** The lock if it is free now, otherwise undefined. */
  tryAcquire(options?: Omit<AcquireOptions, "waitMs">): Promise<HeldLock | undefined>;
  /** Runs `work` under the lock, and releases it whatever happens. */
  run<T>(work: (held: HeldLock) => T | Promise<T>, options?: AcquireOptions): Promise<T>;
}

/** In which way a lock is held, and how it behaves. */
export interface ModalOptions {
  readonly mode: LockMode;
  readonly options: Required<LockOptions>;
}

/** One name, one mode. `Lock` and `ReadWriteLock` are the public forms of it. */
export class ModalLock implements Lockable {
  readonly name: string;
  readonly #store: LockStore;
  readonly #options: Required<LockOptions>;
  readonly #line: Line;

  constructor(redis: Redis, name: string, { mode, options }: ModalOptions) {
    requireRedis(redis);
    checkReader(mode, options.ttlMs);
    this.name = name;
    this.#options = options;
    this.#store = new LockStore(redis, name, { prefix: options.prefix, fair: options.fair, mode });
    this.#line = new Line(this.#what, this.#store.wakes, (tokens) => this.#store.ask(tokens));
  }

  async acquire(options?: AcquireOptions): Promise<HeldLock> {
    const how = resolveAcquireOptions(this.#options, options);
    checkReader(this.#store.mode, how.ttlMs);
    if (how.signal?.aborted) throw new AbortedError(`acquiring ${this.#what}`, how.signal.reason);
    if (how.token !== undefined) return this.#enter(how.token, how);
    const wait = { what: this.#what, kind: "lock", waitMs: how.waitMs } as const;
    return patiently(wait, (waitMs) => this.#acquire({ ...how, waitMs }));
  }

  async tryAcquire(options?: Omit<AcquireOptions, "waitMs">): Promise<HeldLock | undefined> {
    const how = resolveAcquireOptions(this.#options, options);
    return this.acquire({ ...how, waitMs: 0 }).catch((error) => {
      if (error instanceof NotAcquiredError) return undefined;
      throw error;
    });
  }

  async run<T>(work: (held: HeldLock) => T | Promise<T>, options?: AcquireOptions): Promise<T> {
    requireFunction("work", work);
    return whileHeld(await this.acquire(options), work);
  }

  get #what(): string {
    return `lock ${JSON.stringify(this.name)}`;
  }

  async #acquire(how: Required<AcquireOptions>): Promise<HeldLock> {
    const token = lockToken(this.#options.owner);
    const { ttlMs, waitMs, signal } = how;
    const sentAt = performance.now();
    if (waitMs !== 0) this.#store.wakes.prepare(token);
    const asking = this.#store.acquire({ token, ttlMs, wait: waitMs !== 0 });
    try {
      const bounds = acquiring(this.#what, how);
      const { fence, ...place } = await bounded(this.#store.redis, asking, bounds);
      if (fence !== undefined) {
        const safeUntil =
          ttlMs === null ? Number.POSITIVE_INFINITY : sentAt + ttlMs - safetyOf(ttlMs);
        return this.#hold({ name: this.name, token, entry: "0", fence }, { safeUntil }, how);
      }
      if (waitMs === 0) throw new NotAcquiredError(this.#what, waitMs);
      const passedMs = performance.now() - sentAt;
      const left = waitMs === null ? null : Math.max(0, waitMs - passedMs);
      const grant = await this.#line.wait(
        token,
        { touchedAt: sentAt, ...place },
        { waitMs: left, signal },
      );
      const handed = { name: this.name, token, entry: "0", fence: grant.fence };
      const held = this.#hold(handed, grant, how);
      if (grant.whole && held.held) return held;
      const rest = acquiring(this.#what, { waitMs: leftOf(waitMs, sentAt), signal });
      return await prolonged(held, bounded(this.#store.redis, held.extend(ttlMs), rest));
    } catch (error) {
      // The command may have been applied, or the lock handed over meanwhile: it must not stay locked.
      this.#giveUp(token, asking);
      throw error;
    } finally {
      this.#store.wakes.forget(token);
    }
  }

  #hold(
    holding: Holding,
    { safeUntil }: { readonly safeUntil: number },
    { ttlMs, renew, maxHoldMs }: Required<AcquireOptions>,
  ): HeldLock {
    const { fence } = holding;
    return new LockHolding(this.#store, holding, { ttlMs, renew, maxHoldMs, fence, safeUntil });
  }

  async #enter(token: string, how: Required<AcquireOptions>): Promise<HeldLock> {
    const entry = lockToken(this.#options.owner);
    const sentAt = performance.now();
    const entering = this.#store.enter({ token, entry, ttlMs: how.ttlMs });
    try {
      const entered = await bounded(this.#store.redis, entering, acquiring(this.#what, how));
      if (entered === undefined) throw new LeaseLostError(this.#what);
      const held = this.#hold(
        { name: this.name, ...entered },
        { safeUntil: sentAt + (how.ttlMs ?? Number.POSITIVE_INFINITY) },
        how,
      );
      const rest = acquiring(this.#what, { ...how, waitMs: leftOf(how.waitMs, sentAt) });
      return await prolonged(held, bounded(this.#store.redis, held.extend(how.ttlMs), rest));
    } catch (error) {
      // An entry that no caller has would keep the lock after its holder has released it.
      this.#giveUp(token, entering, entry);
      if (this.#store.mode === "read") this.#giveUp(entry, entering);
      throw error;
    }
  }

  /** Once the command that acquires is over: one that no caller waits for may still be on its way. */
  #giveUp(token: string, asking: Promise<unknown>, entry: string = "0"): void {
    const leave = () => this.#store.leave(token, entry);
    asking.then(leave, leave).catch((error) => {
      this.#store.redis.logger.warn({ err: error, lock: this.name }, "cannot give up a lock");
    });
  }
}

/** What is left of `waitMs`, for a last command. */
function leftOf(waitMs: number | null, since: number): number | null {
  return waitMs && Math.max(1, waitMs - (performance.now() - since));
}

/** A lock that one process holds at a time. */
export class Lock implements Lockable {
  readonly name: string;
  readonly #lock: ModalLock;

  constructor(redis: Redis, name: string, options?: LockOptions) {
    this.name = name;
    this.#lock = new ModalLock(redis, name, {
      mode: "write",
      options: resolveLockOptions(options),
    });
  }

  /** Waits for the lock. Throws NotAcquiredError after `waitMs`, AbortedError if the signal aborts. */
  acquire(options?: AcquireOptions): Promise<HeldLock> {
    return this.#lock.acquire(options);
  }

  /** The lock if it is free now, otherwise undefined. */
  tryAcquire(options?: Omit<AcquireOptions, "waitMs">): Promise<HeldLock | undefined> {
    return this.#lock.tryAcquire(options);
  }

  /** Runs `work` under the lock, and releases it whatever happens. */
  run<T>(work: (held: HeldLock) => T | Promise<T>, options?: AcquireOptions): Promise<T> {
    return this.#lock.run(work, options);
  }
}
