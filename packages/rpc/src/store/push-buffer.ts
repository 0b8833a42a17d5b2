/**
 * Batches pushes: everything that is pushed while one event is being handled is sent as one variadic
 * push per list. Under load an event has a few hundred responses and so a few hundred new messages,
 * which become one command. A single message is sent at once.
 *
 *   push(list, text) --> per list: [text, text, ...] --(end of this event's microtasks)--> LPUSH list ...
 *
 * A list whose reader supports it gets one element for all of them, a JSON array: one element to parse,
 * to store and to pop instead of hundreds.
 *
 * Large batches are sent on the connection that is about to wait for the next messages, if it is free
 * at the moment: push and pop are then one write. Small ones are sent at once on the ordinary connection, because
 * a caller waits for them. Order is kept: the connection changes only when everything
 * sent on the previous one has its reply.
 *
 * A push that the server refuses for the moment (no replicas, no memory) is repeated until it is accepted
 * or its time is over. It chooses its connection anew each time: by then, the previous one may wait for the next
 * messages, and the push would wait behind that. The expiry of shared lists is set within a second after a push, in one command for
 * all of them: they are pushed to thousands of times a second and deleted each time they have been read.
 *
 * The flush uses process.nextTick, which runs when the promise continuations of the event have
 * run: later than a microtask (all continuations are done), earlier than the next turn of the loop
 * (the connection writes at its end anyway, so batching adds no latency).
 */
import type { Redis } from "@ropeway/core";
import { type Deferred, deferred } from "@ropeway/core/internal";
import type { RequestSweeper } from "./request-sweeper.ts";
import { extend } from "./scripts.ts";

/** The options of a push buffer. */
export interface PushBufferOptions {
  readonly push: "LPUSH" | "RPUSH";
  /** Whether a push with an unknown outcome is repeated, because a duplicate message is harmless. */
  readonly repeatable: boolean;
  /** Whether the readers of a list accept arrays of messages. @default none */
  packs?(list: string): boolean;
  /** Whether the expiry of a list that is pushed to once is set with the push. @default none, but a second later */
  expiresAtOnce?(list: string): boolean;
  /** Whether a list never expires and is swept instead. @default none */
  isSwept?(list: string): boolean;
  readonly sweeper?: RequestSweeper;
  /** Whether a push that failed with this error is repeated. Only refusals, after which nothing was written. */
  isPassing(error: unknown, list: string): boolean;
  /** Whether a refused message is dropped instead of being pushed again. @default none */
  isUnwanted?(text: string): boolean;
  /** How long a refused push is repeated. */
  readonly insistMs: number;
  /** Called with a failed push and the elements that were in it. */
  onError(error: unknown, elements: readonly string[], list: string): void;
  /** Called with each push just before it is sent. */
  onFlush?(elements: readonly string[], list: string): void;
}

/** The connection that sends pushes. */
export type Carrier = Pick<Redis, "send">;

interface Parcel {
  readonly command: string[];
  readonly packs: boolean;
  readonly expiresAtOnce: boolean;
  /** The messages of the current packed element, separated by commas. */
  pack: string;
  packed: number;
  ttlSeconds: number | undefined;
  sent: Deferred<void> | undefined;
  /** When to stop repeating it; set at the first refusal. */
  until: number | undefined;
}

/** With fewer messages, a combined push and pop costs Redis more time than it saves. */
const FEW = 8;
const EXPIRE_WITHIN_MS = 1_000;
const EXPIRE_AT_ONCE = 1_000;
const REFUSED_PAUSE_MS = 100;
const INSIST_AT_CLOSE_MS = 1_000;
/** More than this in one command would block Redis for too long. */
const MAX_PER_PUSH = 1_000;
/** A packed element is at most this long, plus one message. */
const PACK_CHARS = 64 * 1_024;

/** Gathers pushes to many lists and sends them with as few commands as possible. */
export class PushBuffer {
  readonly #redis: Redis;
  readonly #options: PushBufferOptions;
  readonly #flush = () => this.flush();
  /** The connection of all pushes under way. */
  #carrier: Carrier;
  /** The lifetimes of lists in seconds that were not sent to Redis yet. */
  readonly #expiries = new Map<string, number>();
  #expiring: NodeJS.Timeout | undefined;
  #ride: (() => Carrier | undefined) | undefined;
  #parcels = new Map<string, Parcel>();
  #gathered = 0;
  #scheduled = false;
  /** Refused parcels that can be sent again now. */
  #again: { readonly list: string; readonly parcel: Parcel }[] = [];
  /** The number of refused parcels that pause. */
  #pausing = 0;
  #underWay = 0;
  #idle: (() => void) | undefined;
  /** When the repetitions end because of drained(); by performance.now(). */
  #closesAt = Number.POSITIVE_INFINITY;

  constructor(redis: Redis, options: PushBufferOptions) {
    this.#redis = redis;
    this.#carrier = redis;
    this.#options = options;
  }

  /** Whether the next pop should be sent at once, to share one write with the pushes. */
  get rides(): boolean {
    return this.#underWay > 0 && this.#carrier !== this.#redis;
  }

  /** Sets `ride`, which returns the connection of the pops while it is free. */
  rideOn(ride: () => Carrier | undefined): void {
    this.#ride = ride;
  }

  /** Adds a message. The list lives at least `ttlSeconds` from now. */
  push(list: string, text: string, ttlSeconds?: number): void {
    this.#add(list, text, ttlSeconds);
  }

  /** The same, for a caller that waits until Redis has it. */
  pushed(list: string, text: string, ttlSeconds?: number): Promise<void> {
    const parcel = this.#add(list, text, ttlSeconds);
    parcel.sent ??= deferred();
    return parcel.sent.promise;
  }

  #add(list: string, text: string, ttlSeconds: number | undefined): Parcel {
    let parcel = this.#parcels.get(list);
    if (parcel !== undefined && parcel.command.length > MAX_PER_PUSH) {
      this.flush();
      parcel = this.#parcels.get(list); // still there if it has to wait
    }
    parcel ??= this.#open(list);
    this.#gathered += 1;
    if (parcel.packs) pack(parcel, text);
    else parcel.command.push(text);
    if (ttlSeconds !== undefined && ttlSeconds > (parcel.ttlSeconds ?? 0)) {
      parcel.ttlSeconds = ttlSeconds; // the longest one applies to the list
    }
    if (!this.#scheduled) {
      this.#scheduled = true;
      process.nextTick(this.#flush);
    }
    return parcel;
  }

  #open(list: string): Parcel {
    const parcel: Parcel = {
      command: [this.#options.push, list],
      packs: this.#options.packs?.(list) === true,
      expiresAtOnce: this.#options.expiresAtOnce?.(list) === true,
      pack: "",
      packed: 0,
      ttlSeconds: undefined,
      sent: undefined,
      until: undefined,
    };
    this.#parcels.set(list, parcel);
    return parcel;
  }

  /** Sends the collected messages. */
  flush(): void {
    this.#scheduled = false;
    const parcels = this.#parcels;
    const again = this.#again;
    if (parcels.size === 0 && again.length === 0) return;
    if (!this.#chooseCarrier()) return;
    this.#parcels = new Map();
    this.#again = [];
    this.#gathered = 0;
    for (const { list, parcel } of again) this.#send(list, parcel);
    for (const [list, parcel] of parcels) {
      seal(parcel);
      this.#options.onFlush?.(elementsOf(parcel), list);
      this.#send(list, parcel);
    }
  }

  /** Returns false if earlier pushes have to arrive first; their completion flushes again. */
  #chooseCarrier(): boolean {
    const ride = this.#ride?.();
    if (this.#underWay === 0) {
      this.#carrier = this.#gathered < FEW ? this.#redis : (ride ?? this.#redis);
    }
    return this.#carrier === this.#redis || this.#carrier === ride;
  }

  /** Resolves when every push so far has been accepted or given up. Repetitions end after a second. */
  async drained(): Promise<void> {
    this.#closesAt = performance.now() + INSIST_AT_CLOSE_MS;
    this.flush();
    while (this.#isBusy) {
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
      });
    }
    await this.#expireNow();
  }

  get #isBusy(): boolean {
    const waiting = this.#pausing + this.#again.length + this.#parcels.size;
    return this.#underWay + waiting > 0;
  }

  #send(list: string, parcel: Parcel): void {
    const { repeatable, onError } = this.#options;
    this.#underWay += 1;
    this.#carrier.send(parcel.command, { key: list, repeatable }).then(
      () => {
        parcel.sent?.resolve();
        this.#done(list, parcel);
      },
      (error) => {
        if (!this.#sendsAgain(list, parcel, error)) {
          parcel.sent?.reject(error);
          onError(error, elementsOf(parcel), list);
          this.#done(list, parcel);
          return;
        }
        this.#underWay -= 1;
        this.#proceed();
      },
    );
    const { ttlSeconds, expiresAtOnce } = parcel;
    // With each attempt, because it has no effect on a list that a refused push did not create.
    if (ttlSeconds === undefined || !expiresAtOnce) return;
    this.#carrier
      .send(["EXPIRE", list, String(ttlSeconds)], { key: list, repeatable: true })
      .catch((error) => this.#redis.logger.debug({ err: error, list }, "cannot expire a list"));
  }

  #sendsAgain(list: string, parcel: Parcel, error: unknown): boolean {
    const { isPassing, insistMs } = this.#options;
    if (!isPassing(error, list)) return false;
    const now = performance.now();
    parcel.until ??= now + insistMs;
    if (now > Math.min(parcel.until, this.#closesAt)) return false;
    this.#pausing += 1;
    setTimeout(() => this.#sendWanted(list, parcel), REFUSED_PAUSE_MS);
    return true;
  }

  #sendWanted(list: string, parcel: Parcel): void {
    this.#pausing -= 1;
    const wanted = elementsOf(parcel).filter((text) => this.#options.isUnwanted?.(text) !== true);
    parcel.command.splice(2, Number.POSITIVE_INFINITY, ...wanted);
    if (wanted.length > 0) this.#again.push({ list, parcel });
    else parcel.sent?.resolve();
    this.#proceed();
  }

  #expireSoon(list: string, seconds: number): void {
    const known = this.#expiries.get(list);
    if (known !== undefined && known >= seconds) return;
    this.#expiries.set(list, seconds);
    if (this.#expiries.size >= EXPIRE_AT_ONCE) void this.#expireNow();
    else this.#expiring ??= setTimeout(() => void this.#expireNow(), EXPIRE_WITHIN_MS).unref();
  }

  async #expireNow(): Promise<void> {
    clearTimeout(this.#expiring);
    this.#expiring = undefined;
    if (this.#expiries.size === 0) return;
    const { isSwept = () => false, sweeper } = this.#options;
    const expiring = new Map<string, number>();
    const swept = new Map<string, number>();
    for (const [list, seconds] of this.#expiries) {
      (isSwept(list) ? swept : expiring).set(list, seconds);
    }
    this.#expiries.clear();
    try {
      const extended = [...expiring.keys()];
      if (extended.length > 0) await this.#redis.run(extend, extended, [...expiring.values()]);
      if (swept.size > 0) await sweeper?.note(swept);
    } catch (error) {
      // The push has then failed as well, which is reported, or the lists expire a little too late.
      this.#redis.logger.debug({ err: error }, "cannot set the expiry of lists");
    }
  }

  #done(list: string, { ttlSeconds, expiresAtOnce }: Parcel): void {
    // Only after the reply to the push, because on another connection the expiry could overtake it.
    if (ttlSeconds !== undefined && !expiresAtOnce) this.#expireSoon(list, ttlSeconds);
    this.#underWay -= 1;
    this.#proceed();
  }

  /** Sends what had to wait for the pushes under way. */
  #proceed(): void {
    if (this.#underWay > 0 && this.#again.length === 0) return;
    this.flush();
    if (this.#isBusy) return;
    this.#idle?.();
    this.#idle = undefined;
  }
}

function elementsOf(parcel: Parcel): readonly string[] {
  return parcel.command.slice(2);
}

function pack(parcel: Parcel, text: string): void {
  parcel.pack = parcel.packed === 0 ? text : `${parcel.pack},${text}`;
  parcel.packed += 1;
  if (parcel.pack.length > PACK_CHARS) seal(parcel);
}

/** Makes an element of the packed messages. A single message stays unpacked. */
function seal(parcel: Parcel): void {
  if (parcel.packed === 0) return;
  parcel.command.push(parcel.packed === 1 ? parcel.pack : `[${parcel.pack}]`);
  parcel.packed = 0;
}
