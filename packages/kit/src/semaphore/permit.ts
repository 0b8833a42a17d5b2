/** A permit that is held: what acquire() returns. */
import { Lease, type LeasePlan } from "../lease.ts";
import type { SemaphoreStore } from "./store.ts";

/** One of the permits of a semaphore. */
export interface Permit extends AsyncDisposable {
  /** Identifies the holder in Redis. */
  readonly token: string;
  /** Aborts with LeaseLostError when the permit is lost, before another process can have it. */
  readonly signal: AbortSignal;
  /** Whether the permit is held, as far as this process can know. */
  readonly held: boolean;
  /** Holds the permit for the semaphore's `ttlMs` from now. Throws LeaseLostError if it is lost. */
  refresh(): Promise<void>;
  /**
   * Gives the permit back and hands it to the next waiter. Returns false, and changes nothing, if it was
   * lost before. A second call has the result of the first, or tries again if that one failed. If the
   * connection is lost before the reply comes, the command is sent again, and false can also mean that its
   * first run gave the permit back.
   */
  release(): Promise<boolean>;
}

/** A Permit and the store that it lives in. */
export class PermitHolding implements Permit {
  readonly token: string;
  readonly #store: SemaphoreStore;
  readonly #lease: Lease;
  #released: Promise<boolean> | undefined;

  constructor(
    store: SemaphoreStore,
    token: string,
    plan: Omit<LeasePlan, "extend" | "kind" | "logger">,
  ) {
    this.token = token;
    this.#store = store;
    this.#lease = new Lease({
      ...plan,
      kind: "permit",
      logger: store.redis.logger,
      extend: () => store.extend(token),
    });
  }

  get signal(): AbortSignal {
    return this.#lease.signal;
  }

  get held(): boolean {
    return this.#lease.held;
  }

  refresh(): Promise<void> {
    return this.#lease.extend();
  }

  release(): Promise<boolean> {
    this.#released ??= this.#release();
    return this.#released;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  async #release(): Promise<boolean> {
    this.#lease.end();
    try {
      return await this.#store.leave(this.token);
    } catch (error) {
      this.#released = undefined; // the next call tries again
      throw error;
    }
  }
}
