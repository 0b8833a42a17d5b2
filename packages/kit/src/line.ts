/**
 * The waiters of this process for one lock or semaphore.
 *
 *   wait(token) ---> waiting --- wake-up "token fence" from the WakeList -----------> granted
 *                     |  ^  '--- ask() finds that the token holds it already -------> granted
 *                     |  |
 *                     '--'  every TOUCH_MS, or when the holder's time is over: ask() renews the place of
 *                           every waiter in one command, and grants if the thing is free
 *
 * A place in the queue has a lease of its own, WAITER_LEASE_MS. A process that died stops asking, and
 * the scripts skip its places. What is handed over is held until the lease of the place ends, and
 * the first renewal gives it its own time to live. So the holder's time is known here without a common
 * clock: it ends WAITER_LEASE_MS after the last ask that Redis answered. A waiter of the process that
 * released a lock is known to live: it gets its own time to live at once, counted from the release.
 */
import { AbortedError, isReply, LeaseLostError, RopewayError } from "@ropeway/core";
import { whenAborted } from "@ropeway/core/internal";
import { NotAcquiredError } from "./errors.ts";
import { safetyOf } from "./lease.ts";
import { kitMetrics } from "./metrics.ts";
import type { WakeList } from "./store/wake-list.ts";
import { LONGEST_TIMER_MS } from "./timer.ts";

/** How long a waiter that does not ask keeps its place. */
export const WAITER_LEASE_MS = 5_000;
/** How often the places are renewed: the bound of a lost wake-up. */
const TOUCH_MS = 1_500;
/** Places renewed by one command. */
const TOKENS_PER_ASK = 100;
/** The pause after an ask that failed. */
const AWAY_MS = 200;

/** The reply of the scripts about some waiters. */
export interface Asked {
  /** Tokens that hold the thing by now, and their fences. */
  readonly granted: ReadonlyMap<string, number>;
  /** When to ask again: at the end of the holder's time. Absent if that is not known. */
  readonly retryMs?: number;
}

/** What a waiter gets. */
export interface Grant {
  readonly fence: number;
  /** Until when it is surely held, on the monotonic clock. */
  readonly safeUntil: number;
  /** It has its own time to live already, and need not be prolonged. */
  readonly whole: boolean;
}

/** How long a waiter waits. */
export interface Patience {
  readonly waitMs: number | null;
  readonly signal?: AbortSignal | undefined;
}

interface Waiter {
  readonly resolve: (grant: Grant) => void;
  readonly reject: (error: unknown) => void;
  touchedAt: number;
}

/** The local end of a queue. */
export class Line {
  readonly #what: string;
  readonly #wakes: WakeList;
  readonly #ask: (tokens: readonly string[]) => Promise<Asked>;
  readonly #waiters = new Map<string, Waiter>();
  #timer: NodeJS.Timeout | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #asking = false;

  constructor(what: string, wakes: WakeList, ask: (tokens: readonly string[]) => Promise<Asked>) {
    this.#what = what;
    this.#wakes = wakes;
    this.#ask = ask;
  }

  /**
   * Waits for the place that a script gave to `token`, at `touchedAt` or later. Throws NotAcquiredError
   * or AbortedError; the caller then gives the place back.
   */
  wait(
    token: string,
    place: { touchedAt: number; retryMs?: number },
    patience: Patience,
  ): Promise<Grant> {
    const { waitMs, signal } = patience;
    return new Promise((resolve, reject) => {
      const leave = () => {
        clearTimeout(timeout);
        stopListening?.();
        this.#waiters.delete(token);
        this.#wakes.forget(token);
        if (this.#waiters.size === 0) this.#schedule(Number.POSITIVE_INFINITY);
      };
      const onAbort = () => {
        leave();
        reject(new AbortedError(`acquiring ${this.#what}`, signal?.reason));
      };
      const timeout =
        waitMs === null
          ? undefined
          : setTimeout(
              () => {
                leave();
                reject(new NotAcquiredError(this.#what, waitMs));
              },
              Math.min(waitMs, LONGEST_TIMER_MS),
            );
      const stopListening = signal && whenAborted(signal, onAbort);
      this.#waiters.set(token, {
        touchedAt: place.touchedAt,
        resolve: (grant) => {
          leave();
          resolve(grant);
        },
        reject: (error) => {
          leave();
          reject(error);
        },
      });
      if (signal?.aborted) return onAbort();
      this.#wakes.expect(token, (message, sentAt) => this.#woken(token, message, sentAt));
      if (!this.#waiters.has(token)) return; // woken before
      this.#schedule(performance.now() + Math.min(TOUCH_MS, place.retryMs ?? TOUCH_MS));
    });
  }

  #woken(token: string, message: string, sentAt?: number): void {
    const [, fence = 0, ttlMs = 0] = message.split(" ").map(Number);
    if (!(fence > 0))
      void this.#askAll(); // free for the first process that asks: ask now
    else if (sentAt === undefined || ttlMs === 0) this.#grant(token, fence);
    else this.#waiters.get(token)?.resolve({ fence, ...heldFrom(sentAt, ttlMs), whole: true });
  }

  #grant(token: string, fence: number): void {
    const waiter = this.#waiters.get(token);
    const since = waiter?.touchedAt ?? 0;
    waiter?.resolve({ fence, ...heldFrom(since, WAITER_LEASE_MS), whole: false });
  }

  #schedule(at: number): void {
    if (at !== Number.POSITIVE_INFINITY && at >= this.#timerAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    if (at === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(
      () => {
        this.#timerAt = Number.POSITIVE_INFINITY;
        void this.#askAll();
      },
      Math.max(1, at - performance.now()),
    );
  }

  async #askAll(): Promise<void> {
    if (this.#asking) return this.#schedule(performance.now() + 1);
    this.#asking = true;
    let retryMs = TOUCH_MS;
    try {
      const tokens = [...this.#waiters.keys()];
      for (let i = 0; i < tokens.length; i += TOKENS_PER_ASK) {
        const some = tokens
          .slice(i, i + TOKENS_PER_ASK)
          .filter((token) => this.#waiters.has(token));
        if (some.length === 0) continue;
        const sentAt = performance.now();
        const { granted, retryMs: soon = TOUCH_MS } = await this.#ask(some);
        retryMs = Math.min(retryMs, soon);
        for (const token of some) {
          const waiter = this.#waiters.get(token);
          if (waiter !== undefined) waiter.touchedAt = sentAt;
        }
        for (const [token, fence] of granted) this.#grant(token, fence);
      }
    } catch (error) {
      if (!passes(error)) for (const waiter of [...this.#waiters.values()]) waiter.reject(error);
      retryMs = AWAY_MS;
    } finally {
      this.#asking = false;
    }
    if (this.#waiters.size > 0) this.#schedule(performance.now() + Math.max(1, retryMs));
  }
}

function heldFrom(since: number, ttlMs: number): { readonly safeUntil: number } {
  return { safeUntil: since + ttlMs - safetyOf(ttlMs) };
}

/** What a caller waits for. */
export interface Wait {
  /** Names it in errors. */
  readonly what: string;
  readonly kind: "lock" | "permit";
  readonly waitMs: number | null;
}

/**
 * Attempts to acquire until the caller's time is over. A process that was paused can find that its lock or
 * permit is lost already (LeaseLostError). It then queues again. Throws NotAcquiredError.
 */
export async function patiently<T>(
  { what, kind, waitMs }: Wait,
  attempt: (leftMs: number | null) => Promise<T>,
): Promise<T> {
  const since = performance.now();
  const until = since + (waitMs ?? 0);
  for (let leftMs = waitMs; ; leftMs = waitMs && Math.max(0, until - performance.now())) {
    try {
      const acquired = await attempt(leftMs);
      kitMetrics().noteWait(kind, "acquired", performance.now() - since);
      return acquired;
    } catch (error) {
      if (error instanceof LeaseLostError) continue;
      kitMetrics().noteWait(kind, "failed", performance.now() - since);
      if (error instanceof NotAcquiredError) throw new NotAcquiredError(what, waitMs ?? 0);
      throw error;
    }
  }
}

/** The connection is lost, or Redis is busy: the waiter's own limit decides how long that may last. */
function passes(error: unknown): boolean {
  const code = error instanceof RopewayError ? error.code : "";
  if (code === "CONNECTION_LOST" || code === "NOT_CONNECTED") return true;
  return code === "SERVER_REPLY" && !isReply(error, "NOPERM");
}
