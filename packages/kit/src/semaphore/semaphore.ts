/**
 * A counting semaphore on the documented keys. It differs from the documented programs in three ways:
 * Redis time only, so a slow clock steals no permit; one script per step, so there is no race between
 * two transactions; and waiters are served in the order of their arrival instead of polling.
 *
 * A documented program ends the permits of others by its own clock. So a permit counts as lost here a
 * little earlier than it ends in Redis (clockMargin), and a program whose clock is ahead by less cannot
 * be admitted beside its holder.
 */
import { AbortedError, type Redis } from "@ropeway/core";
import { newToken, requireFunction, requireRedis } from "@ropeway/core/internal";
import { acquiring, bounded, prolonged } from "../bounded.ts";
import { NotAcquiredError } from "../errors.ts";
import { safetyOf } from "../lease.ts";
import { Line, patiently } from "../line.ts";
import { whileHeld } from "../while-held.ts";
import {
  checkLimit,
  type PermitOptions,
  resolvePermitOptions,
  resolveSemaphoreOptions,
  type SemaphoreOptions,
} from "./options.ts";
import { type Permit, PermitHolding } from "./permit.ts";
import { SemaphoreStore, type SemaphoreView } from "./store.ts";

/** How far the clock of a documented program may be ahead. */
const AHEAD_MS = 1_000;

function clockMargin(ttlMs: number): number {
  return Math.min(ttlMs / 4, AHEAD_MS + safetyOf(ttlMs));
}

/** At most `limit` holders at a time, in all processes together. */
export class Semaphore {
  readonly name: string;
  readonly #options: Required<SemaphoreOptions>;
  readonly #store: SemaphoreStore;
  readonly #line: Line;

  constructor(redis: Redis, name: string, options?: SemaphoreOptions) {
    requireRedis(redis);
    this.name = name;
    this.#options = resolveSemaphoreOptions(options);
    this.#store = new SemaphoreStore(redis, name, this.#options);
    this.#line = new Line(this.#what, this.#store.wakes, (tokens) => this.#store.ask(tokens));
  }

  /** Waits for a permit. Throws NotAcquiredError after `waitMs`, AbortedError if the signal aborts. */
  async acquire(options?: PermitOptions): Promise<Permit> {
    const how = resolvePermitOptions(this.#options, options);
    const { signal } = how;
    if (signal?.aborted) throw new AbortedError(`acquiring ${this.#what}`, signal.reason);
    const wait = { what: this.#what, kind: "permit", waitMs: how.waitMs } as const;
    return patiently(wait, (waitMs) => this.#acquire({ ...how, waitMs }));
  }

  /** A permit if one is free now, otherwise undefined. */
  async tryAcquire(options?: Omit<PermitOptions, "waitMs">): Promise<Permit | undefined> {
    const how = resolvePermitOptions(this.#options, options);
    return this.acquire({ ...how, waitMs: 0 }).catch((error) => {
      if (error instanceof NotAcquiredError) return undefined;
      throw error;
    });
  }

  /** Runs `work` with a permit, and gives it back whatever happens. */
  async run<T>(work: (permit: Permit) => T | Promise<T>, options?: PermitOptions): Promise<T> {
    requireFunction("work", work);
    return whileHeld(await this.acquire(options), work);
  }

  /**
   * Sets the limit for all processes; undefined: the `limit` option counts again. Those above a smaller
   * limit keep their permits until they release them.
   */
  async resize(limit: number | undefined): Promise<void> {
    checkLimit(limit);
    await this.#store.resize(limit);
  }

  /** The limit, how many hold a permit and how many wait. */
  inspect(): Promise<SemaphoreView> {
    return this.#store.view();
  }

  async #acquire(how: Required<PermitOptions>): Promise<Permit> {
    const { waitMs, signal } = how;
    const token = newToken();
    const sentAt = performance.now();
    if (waitMs !== 0) this.#store.wakes.prepare(token);
    const asking = this.#store.acquire(token, waitMs !== 0);
    try {
      const bounds = acquiring(this.#what, how);
      const { acquired, ...place } = await bounded(this.#store.redis, asking, bounds);
      const { ttlMs } = this.#options;
      if (acquired) return this.#hold(token, sentAt + ttlMs - clockMargin(ttlMs), how);
      if (waitMs === 0) throw new NotAcquiredError(this.#what, waitMs);
      const passedMs = performance.now() - sentAt;
      const left = waitMs === null ? null : Math.max(0, waitMs - passedMs);
      const grant = await this.#line.wait(
        token,
        { touchedAt: sentAt, ...place },
        { waitMs: left, signal },
      );
      // Documented programs count `ttlMs` from the hand-over, whose time is not known here.
      const permit = this.#hold(token, grant.safeUntil, how);
      const leftMs = waitMs && Math.max(1, waitMs - (performance.now() - sentAt));
      const rest = acquiring(this.#what, { waitMs: leftMs, signal });
      return await prolonged(permit, bounded(this.#store.redis, permit.refresh(), rest));
    } catch (error) {
      // The command may have been applied, or a permit handed over meanwhile.
      this.#giveUp(token, asking);
      throw error;
    } finally {
      this.#store.wakes.forget(token);
    }
  }

  get #what(): string {
    return `semaphore ${JSON.stringify(this.name)}`;
  }

  #hold(token: string, safeUntil: number, how: Required<PermitOptions>): Permit {
    const { renew, maxHoldMs } = how;
    const { ttlMs } = this.#options;
    return new PermitHolding(this.#store, token, {
      what: this.#what,
      ttlMs,
      renew,
      maxHoldMs,
      safeUntil,
      margin: clockMargin,
    });
  }

  /** Once the command that acquires is over: one that no caller waits for may still be on its way. */
  #giveUp(token: string, asking: Promise<unknown>): void {
    const leave = () => this.#store.leave(token);
    asking.then(leave, leave).catch((error) => {
      this.#store.redis.logger.warn(
        { err: error, semaphore: this.name },
        "cannot give up a permit",
      );
    });
  }
}
