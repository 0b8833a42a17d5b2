/**
 * Keeps requests from waiting for a Redis that does not respond. A server that hangs (stopped, swapping, a
 * network that swallows packets) keeps its connections open, and core notices only after many seconds. So
 * while requests are under way, a PING is:
 *
 *   answering ---- no answer to a PING for `silenceMs` ----> silent: requests under way get a 503,
 *       ^                                                      |     new ones after a short grace
 *       '------------------- a PING is answered ---------------'
 *
 * Each change of state is one line in the log. Work that does not need Redis (the cluster's store may be
 * etcd) ends within the grace. Time counts by ticks, so that a process that was suspended itself does not
 * blame Redis.
 */
import { ConnectionLostError, type Logger, type Redis } from "@ropeway/core";
import { ping } from "./store.ts";

/** What a pulse works with. */
export interface PulsePlan {
  readonly redis: Redis;
  /** How long Redis may leave a PING unanswered. */
  readonly silenceMs: number;
  readonly logger: Logger;
}

/** Work that is waited for. */
interface Waiter {
  readonly sinceTick: number;
  /** Its place in the list; -1 when it has left. */
  place: number;
  giveUp(): void;
}

const TICK_MS = 100;
const GRACE_TICKS = 3;

/** Watches one Redis while requests wait for it. */
export class Pulse {
  readonly #plan: PulsePlan;
  /**
   * In no order. Not a Set: under load a Set is copied again and again as it fills with deleted entries, each
   * copy keeps the requests of its time reachable for the next one, and the garbage collector moves them all.
   */
  readonly #waiters: Waiter[] = [];
  #timer: NodeJS.Timeout | undefined;
  #ticks = 0;
  /** The tick of the first PING that was not answered. */
  #askedAt: number | undefined;
  #asking = false;
  #silent = false;

  constructor(plan: PulsePlan) {
    this.#plan = plan;
  }

  /** Whether Redis does not respond. */
  get silent(): boolean {
    return this.#silent;
  }

  /**
   * The outcome of the work, or ConnectionLostError if Redis stops responding first; then the work may or may
   * not have its effect. Work whose response is under way, such as an event stream, is left alone.
   */
  bounded<T>(work: Promise<T>, isAnswered: () => boolean): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const giveUp = () => {
        if (isAnswered()) return;
        const silence = new Error(`no answer for ${this.#plan.silenceMs} ms`);
        reject(new ConnectionLostError(this.#plan.redis.where, silence));
      };
      const waiter: Waiter = { sinceTick: this.#ticks, place: this.#waiters.length, giveUp };
      this.#waiters.push(waiter);
      this.#timer ??= this.#start();
      work.then(
        (value) => {
          this.#leave(waiter);
          resolve(value);
        },
        (error) => {
          this.#leave(waiter);
          reject(error);
        },
      );
    });
  }

  #start(): NodeJS.Timeout {
    if (!this.#asking) this.#askedAt = undefined;
    this.#ask();
    return setInterval(() => this.#tick(), TICK_MS).unref();
  }

  #tick(): void {
    this.#ticks += 1;
    if (this.#waiters.length === 0 && !this.#silent) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }
    this.#ask();
    const { silenceMs, logger, redis } = this.#plan;
    if (this.#askedAt === undefined || (this.#ticks - this.#askedAt) * TICK_MS < silenceMs) return;
    if (!this.#silent) {
      this.#silent = true;
      logger.error({ redis: redis.where, silenceMs }, "Redis does not answer; requests get a 503");
    }
    const old = this.#waiters.filter((waiter) => this.#ticks - waiter.sinceTick >= GRACE_TICKS);
    for (const waiter of old) {
      this.#leave(waiter);
      waiter.giveUp();
    }
  }

  /** The last one takes its place. */
  #leave(waiter: Waiter): void {
    const { place } = waiter;
    if (place < 0) return;
    waiter.place = -1;
    const last = this.#waiters.pop() as Waiter;
    if (last === waiter) return;
    last.place = place;
    this.#waiters[place] = last;
  }

  #ask(): void {
    if (this.#asking) return;
    this.#asking = true;
    this.#askedAt ??= this.#ticks;
    ping(this.#plan.redis).then(
      () => {
        this.#asking = false;
        this.#askedAt = undefined;
        if (!this.#silent) return;
        this.#silent = false;
        this.#plan.logger.info({ redis: this.#plan.redis.where }, "Redis answers again");
      },
      () => {
        this.#asking = false; // sent again at the next tick
      },
    );
  }
}
