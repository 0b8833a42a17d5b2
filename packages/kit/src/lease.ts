/**
 * A lease: something that a process holds until a time and renews before that time.
 *
 *                       renewal says yes: safeUntil moves on
 *                     .--------------------.
 *                     v                    |
 *   acquired ----> holding --- renewAt ----'
 *                   |   |
 *         end() ----'   '---- renewal says no, or safeUntil comes ----> lost: the signal aborts
 *
 * `safeUntil` is on this machine's monotonic clock and counts from the moment before the command was
 * sent, less a margin for clocks that run at different speeds. Redis ends the lease later than that, so the
 * signal aborts before another process can hold the same thing. A renewal never acquires again: the script
 * behind it changes nothing if the token is not the holder's.
 *
 * One timer serves all leases of the process.
 */
import { LeaseLostError, type Logger } from "@ropeway/core";
import { guardSignal, reasonOf } from "@ropeway/core/internal";
import { kitMetrics, type LeaseKind } from "./metrics.ts";
import { LONGEST_TIMER_MS } from "./timer.ts";

/** A renewal is due when a third of the time has passed; two more attempts fit before the end. */
const RENEWALS_PER_TTL = 3;
/** A renewal may come earlier by this part of the time, so that one tick serves many leases. */
const RENEWAL_SLACK = 30;

/** What a lease is about and how it is renewed. */
export interface LeasePlan {
  /** Names it in errors: `lock "market"`. */
  readonly what: string;
  /** For metrics. */
  readonly kind: LeaseKind;
  readonly fence?: number;
  /** null: held without an end, nothing to renew. */
  readonly ttlMs: number | null;
  /** Until when it is ours for certain, on the monotonic clock. */
  readonly safeUntil: number;
  /** The safety margin of a time to live. @default safetyOf */
  readonly margin?: (ttlMs: number) => number;
  /** Renew by itself. */
  readonly renew: boolean;
  /** Not renewed any more after this time. */
  readonly maxHoldMs?: number | undefined;
  /** Told when an abort listener of the holder throws. */
  readonly logger: Logger;
  /** Asks Redis for `ttlMs` more; false if the token does not hold it any more. */
  extend(ttlMs: number | null): Promise<boolean>;
}

/** The part of a time to live that is reserved for clocks that run at different speeds. */
export function safetyOf(ttlMs: number): number {
  return Math.min(ttlMs / 4, 2 + ttlMs / 100);
}

/** One lease. */
export class Lease {
  readonly #plan: LeasePlan;
  readonly #controller = new AbortController();
  #signal: AbortSignal | undefined;
  readonly #since: number;
  readonly #renewUntil: number;
  #ttlMs: number | null;
  #safeUntil: number;
  #renewAt: number;
  /** How many extensions were asked for. */
  #extensions = 0;
  #state: "holding" | "lost" | "ended" = "holding";

  constructor(plan: LeasePlan) {
    const now = performance.now();
    this.#plan = plan;
    this.#since = now;
    this.#ttlMs = plan.ttlMs;
    this.#safeUntil = plan.safeUntil;
    this.#renewUntil = now + (plan.maxHoldMs ?? Number.POSITIVE_INFINITY);
    this.#renewAt = this.#nextRenewal(now);
    timer.add(this);
  }

  /** Aborts with LeaseLostError when the lease is lost; not when it is ended. */
  get signal(): AbortSignal {
    this.#look(performance.now()); // the timer may be late after a pause of the process
    this.#signal ??= guardSignal(this.#controller.signal, (error) => {
      const { logger, what } = this.#plan;
      logger.error({ err: reasonOf(error), what }, "an abort listener failed");
    });
    return this.#signal;
  }

  get held(): boolean {
    this.#look(performance.now());
    return this.#state === "holding";
  }

  /** Whether no other process can hold it yet, also after end(). */
  get certain(): boolean {
    return this.#state !== "lost" && performance.now() < this.#safeUntil;
  }

  /** When the timer has something to do here. */
  get dueAt(): number {
    return Math.min(this.#renewAt, this.#safeUntil);
  }

  /** Renews now, for `ttlMs` or as long as before. Throws LeaseLostError if it is lost. */
  async extend(ttlMs: number | null = this.#ttlMs): Promise<void> {
    if (!this.held) throw this.#lostError();
    const sentAt = performance.now();
    const { margin = safetyOf } = this.#plan;
    const until = ttlMs === null ? Number.POSITIVE_INFINITY : sentAt + ttlMs - margin(ttlMs);
    if (until < this.#safeUntil) {
      this.#safeUntil = until; // Redis may end it earlier from now on, also if its reply is late
      timer.moved(this);
    }
    this.#extensions += 1;
    const extension = this.#extensions;
    const ours = await this.#plan.extend(ttlMs);
    if (this.#state !== "holding") throw this.#lostError();
    if (!ours) {
      this.#lose();
      throw this.#lostError();
    }
    // A later one that is under way may have run already: only its reply says more than was known.
    if (extension === this.#extensions) {
      this.#ttlMs = ttlMs;
      this.#safeUntil = until;
    }
    this.#renewAt = this.#nextRenewal(performance.now());
    timer.moved(this);
  }

  /** Given back: nothing is renewed, and the signal does not abort any more. True if it was held. */
  end(): boolean {
    const held = this.held;
    if (held) {
      this.#state = "ended";
      kitMetrics().noteLease(this.#plan.kind, "ended", performance.now() - this.#since);
    }
    timer.remove(this);
    return held;
  }

  /** Called by the timer at `dueAt` or earlier. A renewal that is due soon is made now, with those due now. */
  tick(now: number): void {
    this.#look(now);
    const slackMs = (this.#ttlMs ?? 0) / RENEWAL_SLACK;
    if (this.#state !== "holding" || now < this.#renewAt - slackMs) return;
    this.#renewAt = Number.POSITIVE_INFINITY; // until this attempt has ended
    this.extend().catch(() => {
      // A lost connection may come back in time. If not, safeUntil ends the lease.
      const pauseMs = Math.min(1_000, (this.#ttlMs ?? 1_000) / 10);
      this.#renewAt = performance.now() + pauseMs;
      timer.moved(this);
    });
  }

  #nextRenewal(now: number): number {
    if (!this.#plan.renew || this.#ttlMs === null) return Number.POSITIVE_INFINITY;
    const leftMs = Math.min(this.#ttlMs, this.#safeUntil - now);
    const at = now + Math.max(0, leftMs / RENEWALS_PER_TTL);
    return at < this.#renewUntil ? at : Number.POSITIVE_INFINITY;
  }

  #look(now: number): void {
    if (this.#state === "holding" && now >= this.#safeUntil) this.#lose();
  }

  #lose(): void {
    if (this.#state !== "holding") return;
    this.#state = "lost";
    timer.remove(this);
    kitMetrics().noteLease(this.#plan.kind, "lost", performance.now() - this.#since);
    this.#controller.abort(this.#lostError());
  }

  #lostError(): LeaseLostError {
    return new LeaseLostError(this.#plan.what, this.#plan.fence);
  }
}

/**
 * The one timer: set to the lease that is due next, or to an earlier time. Looking for that lease costs a walk
 * over all of them, so only a tick does it, once for all leases that are due about then. A lease that changes
 * only moves the timer forward. With a walk per renewal, 10,000 leases would keep a process too busy to renew them.
 */
class LeaseTimer {
  readonly #leases = new Set<Lease>();
  #timeout: NodeJS.Timeout | undefined;
  #at = Number.POSITIVE_INFINITY;

  add(lease: Lease): void {
    this.#leases.add(lease);
    this.moved(lease);
  }

  remove(lease: Lease): void {
    this.#leases.delete(lease);
    if (this.#leases.size === 0) this.#arm(Number.POSITIVE_INFINITY);
  }

  /** The lease is due at another time now. */
  moved(lease: Lease): void {
    if (lease.dueAt < this.#at && this.#leases.has(lease)) this.#arm(lease.dueAt);
  }

  #arm(at: number): void {
    clearTimeout(this.#timeout);
    this.#at = at;
    this.#timeout = undefined;
    if (at === Number.POSITIVE_INFINITY) return;
    const ms = Math.min(Math.max(0, at - performance.now()), LONGEST_TIMER_MS);
    this.#timeout = setTimeout(() => this.#tick(), ms).unref();
  }

  #tick(): void {
    this.#at = Number.POSITIVE_INFINITY;
    const now = performance.now();
    let next = Number.POSITIVE_INFINITY;
    for (const lease of this.#leases) {
      lease.tick(now);
      if (this.#leases.has(lease)) next = Math.min(next, lease.dueAt);
    }
    if (next < this.#at) this.#arm(next);
  }
}

const timer = new LeaseTimer();
