/** A lock that is held: what acquire() returns. */
import { newToken } from "@ropeway/core/internal";
import { Lease, type LeasePlan } from "../lease.ts";
import { checkExtension } from "./options.ts";
import type { LockStore } from "./store.ts";

/** Who holds which entry of which lock. */
export interface Holding {
  readonly name: string;
  readonly token: string;
  /** "0" for the acquisition itself, another id for an entry by token. */
  readonly entry: string;
  readonly fence: number;
}

/**
 * One acquisition of a lock. Pass `fence` to the resource that the lock protects: a store that refuses a
 * fence below the highest it has seen is safe even if this process is paused past its lease.
 */
export interface HeldLock extends AsyncDisposable {
  readonly name: string;
  /** Identifies the holder in Redis. A process that knows it can enter the lock too. */
  readonly token: string;
  /** Greater than the fence of every acquisition before this one. */
  readonly fence: number;
  /** Aborts with LeaseLostError when the lock is lost, before another process can hold it. */
  readonly signal: AbortSignal;
  /** Whether the lock is held, as far as this process can know. */
  readonly held: boolean;
  /** Holds the lock for `ttlMs` from now. Throws LeaseLostError if it is lost. */
  extend(ttlMs?: number | null): Promise<void>;
  /**
   * Releases the lock and hands it to the next waiter. Returns false, and changes nothing, if it was
   * lost before. A second call has the result of the first, or tries again if that one failed. If the
   * connection is lost before the reply comes, the command is sent again, and false can also mean that its
   * first run released the lock.
   */
  release(): Promise<boolean>;
}

/** A HeldLock and the store that it lives in. */
export class LockHolding implements HeldLock {
  readonly name: string;
  readonly token: string;
  readonly fence: number;
  readonly #store: LockStore;
  readonly #entry: string;
  readonly #lease: Lease;
  #released: Promise<boolean> | undefined;

  constructor(
    store: LockStore,
    holding: Holding,
    plan: Omit<LeasePlan, "extend" | "what" | "kind" | "logger">,
  ) {
    this.name = holding.name;
    this.token = holding.token;
    this.fence = holding.fence;
    this.#store = store;
    this.#entry = holding.entry;
    this.#lease = new Lease({
      ...plan,
      kind: "lock",
      logger: store.redis.logger,
      what: `lock ${JSON.stringify(holding.name)}`,
      extend: (ttlMs) => store.extend(holding.token, ttlMs),
    });
  }

  get signal(): AbortSignal {
    return this.#lease.signal;
  }

  get held(): boolean {
    return this.#lease.held;
  }

  async extend(ttlMs?: number | null): Promise<void> {
    if (ttlMs !== undefined) checkExtension(this.#store.mode, ttlMs);
    await this.#lease.extend(ttlMs);
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
      return await this.#store.leave(this.token, this.#entry);
    } catch (error) {
      this.#released = undefined; // the next call tries again
      throw error;
    }
  }
}

/** A token: its first word tells ours from those of other programs, its last one names the holder. */
export function lockToken(owner: string): string {
  return `rw1:${newToken()}:${owner}`;
}
