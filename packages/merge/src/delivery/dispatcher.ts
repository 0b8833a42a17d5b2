/**
 * Fires due batches. Any number of dispatchers work on one prefix:
 *
 *   due.lua reserves due keys for this one --> a slot of its origin (origin-slots.ts)
 *      ^                                              |
 *      |                                              v
 *      |                                       get.lua locks it (the lease) --> handler --> verdict
 *      |                                                                                        |
 *      '---- wait: the next time, a push, a free slot <---- batch-end.ts turns it into a script '
 *
 * A dispatcher that is killed at any point leaves a reservation that ends in seconds, or a lease that expires.
 * Another dispatcher then gets the batch. Redis refuses a verdict after the lease because of its token.
 */

import { ClosedError, type EventMap, isReply, WrongKeyTypeError } from "@ropeway/core";
import {
  BackgroundRole,
  inSpan,
  LONGEST_TIMER_MS,
  Loop,
  newToken,
  type Opening,
  reasonOf,
  resolveOptions,
  sleep,
} from "@ropeway/core/internal";
import { DeadLetters } from "../admin/dead-letters.ts";
import { DeliveryMetrics, deliverySpan } from "../metrics.ts";
import { isSingle, originOf } from "../queue/destination.ts";
import { newBatchId } from "../queue/item.ts";
import { PushSignal } from "../queue/push-signal.ts";
import { type Batch, batchOf, type MergeQueue } from "../queue/queue.ts";
import { requireQueue } from "../queue/require-queue.ts";
import { type Held, QueueStore } from "../store/queue-store.ts";
import { BatchEnd } from "./batch-end.ts";
import { type DispatcherOptions, dispatcherOptions } from "./dispatcher-options.ts";
import { OriginSlots, type Slot, type Ticket } from "./origin-slots.ts";
import { RunningBatch } from "./running-batch.ts";
import { checkVerdict, type Verdict } from "./verdict.ts";

/** The second argument of a handler. */
export interface Handling {
  /** How long this dispatcher still holds the batch. After that time another dispatcher delivers it again. */
  readonly leftMs: number;
  /** Aborted when that time is over (TimeoutError), and when the dispatcher closes (ClosedError). */
  readonly signal: AbortSignal;
}

/** Works on a batch. Returning nothing means that the whole batch was delivered; throwing means a retry. */
export type Handler = (
  batch: Batch,
  handling: Handling,
) => Promise<Verdict | undefined> | Promise<void>;

/** The events of a dispatcher. */
export interface DispatcherEvents extends EventMap {
  /** A batch was delivered. */
  delivered: [batch: Batch];
  /** A batch, or a part of it, failed and is tried again in `retryMs`. */
  failed: [batch: Batch, failure: { readonly reason: string; readonly retryMs: number }];
  /** A batch, or a part of it, became a dead letter. */
  dead: [batch: Batch, death: { readonly letter: string; readonly reason: string }];
}

/** The result of a handler's call. */
interface Attempt {
  readonly held: Held;
  /** Undefined if it was delivered and nobody listens for it. */
  readonly batch: Batch | undefined;
  readonly verdict: Verdict;
  /** The maximum number of attempts. */
  readonly attempts: number;
}

/** The minimum time between two checks after a check that found nothing. */
const CALM_MS = 5;
/** The maximum number of keys that one check reserves. Other dispatchers get the rest. */
const MOST_KEYS = 64;
/** The maximum sleep, in case a wake-up was lost. */
const LONGEST_SLEEP_MS = 5_000;
/** The part of the lease that is reserved for the end of a batch: a quarter, at most a second. */
const SETTLE_MS = 1_000;
const TRIM_MS = 60_000;
/** How long close() waits for handlers that it has interrupted. */
const INTERRUPT_MS = 5_000;

/** Passes due batches to a handler, until it is closed. */
export class Dispatcher extends BackgroundRole<DispatcherEvents> {
  readonly #queue: MergeQueue;
  readonly #store: QueueStore;
  readonly #handler: Handler;
  readonly #options: Required<DispatcherOptions>;
  readonly #active = new Set<Promise<void>>();
  readonly #slots: OriginSlots;
  readonly #metrics = new DeliveryMetrics();
  readonly #end: BatchEnd;
  /** The batches in the handler: aborted when their lease ends, or when the dispatcher must close. */
  readonly #running = new Set<RunningBatch>();
  readonly #reporter = (error: unknown): void => this.report(error);
  #signal: PushSignal | undefined;
  #checkedAt = 0;
  /** The key of a wrong type that was last reported. */
  #wrong = "";

  constructor(queue: MergeQueue, handler: Handler, options?: DispatcherOptions) {
    requireQueue(queue);
    super("the dispatcher", queue.redis.logger);
    this.#queue = queue;
    this.#handler = handler;
    this.#options = resolveOptions(dispatcherOptions, options);
    this.#store = new QueueStore(queue.redis, queue.options);
    this.#slots = new OriginSlots(this.#options);
    this.#end = new BatchEnd(this.#store, this.#options, {
      logger: queue.redis.logger,
      leaseLost: () => this.#metrics.noteLeaseLost(),
      delivered: (batch) => this.emit("delivered", batch),
      failed: (batch, failure) => this.emit("failed", batch, failure),
      dead: (batch, death) => this.emit("dead", batch, death),
      beforeDead: async (batch, reason) => this.#options.beforeDead?.(batch, reason),
      error: (error) => this.report(error),
    });
  }

  /** How many batches are in the handler. */
  get active(): number {
    return this.#active.size;
  }

  protected async open({ defer }: Opening): Promise<void> {
    const signal = await PushSignal.open(this.#queue.redis, this.#queue.keys.channel);
    this.#signal = signal;
    defer(() => signal.close());
    defer(() => this.#drain());
    const look = new Loop({
      tick: (aborted) => this.#tick(signal, aborted),
      onError: (error) => this.#lookFailed(error),
      backoff: { baseMs: 50, maxMs: 2_000 },
    });
    const trim = new Loop({
      tick: () => this.#trim(),
      onError: (error) => this.report(error),
      backoff: { baseMs: 1_000, maxMs: TRIM_MS },
    });
    defer(() => trim.close());
    defer(() => look.close());
    look.start();
    trim.start();
  }

  protected override release(): void {
    this.#signal?.ring();
  }

  /**
   * Lets the running batches end (bounded), then interrupts the others. A handler that still continues is
   * abandoned: its batch is delivered again after the lease.
   */
  async #drain(): Promise<void> {
    const ended = Promise.all(this.#active).then(() => true as const);
    const { closeWithinMs } = this.#options;
    if (await within(ended, Math.min(closeWithinMs, LONGEST_TIMER_MS))) return;
    for (const running of this.#running) running.abort(new ClosedError("the dispatcher"));
    if (await within(ended, INTERRUPT_MS)) return;
    const left = this.#active.size;
    this.#queue.redis.logger.warn(
      { batches: left },
      "handlers did not stop when the dispatcher closed",
    );
  }

  async #trim(): Promise<number> {
    const { letterAgeMs: maxAgeMs, maxLetters: maxCount } = this.#options;
    const letters = new DeadLetters(this.#queue);
    return (await letters.trim({ maxAgeMs, maxCount })) > 0 ? 100 : TRIM_MS;
  }

  /** Checks once for due keys, and waits until the next check is useful. */
  async #tick(signal: PushSignal, aborted: AbortSignal): Promise<number> {
    const free = this.held ? 0 : this.#options.concurrency - this.#active.size;
    if (free <= 0) {
      await signal.wait(signal.count, LONGEST_SLEEP_MS, aborted);
      return 0;
    }
    const calm = this.#checkedAt + CALM_MS - performance.now();
    if (calm > 0) await sleep(calm, aborted);
    const seen = signal.count;
    const { reserveMs } = this.#options;
    const found = await this.#store.due({ most: Math.min(free, MOST_KEYS), reserveMs });
    if (found.wrong === "") this.#wrong = "";
    else this.#lookFailed(new WrongKeyTypeError(found.wrong));
    let launched = 0;
    for (const due of found.keys) {
      if (this.#admit({ ...due, reserved: found.reserved })) launched += 1;
    }
    if (launched > 0) return 0;
    this.#checkedAt = performance.now();
    if (found.keys.length > 0) return 0; // other keys may be due behind the keys whose origin is full
    const next = found.nextMs < 0 ? LONGEST_SLEEP_MS : Math.min(found.nextMs, LONGEST_SLEEP_MS);
    await signal.wait(seen, next, aborted);
    return 0;
  }

  /** Reports a foreign value when it is found, and not again at every check. */
  #lookFailed(error: unknown): void {
    const wrong = error instanceof WrongKeyTypeError ? String(error.details.key) : "";
    if (wrong === "" || wrong !== this.#wrong) this.report(error);
    if (wrong !== "") this.#wrong = wrong;
  }

  /** Starts a key if its origin has a free slot. If not, the key queues or comes due again. */
  #admit(ticket: Ticket): boolean {
    const origin = originOf(ticket.key);
    if (origin === undefined) {
      this.#launch(ticket, undefined);
      return true;
    }
    const slot = this.#slots.enter(origin, ticket, performance.now());
    if (typeof slot === "object") {
      this.#launch(ticket, slot);
      return true;
    }
    this.#metrics.noteOriginFull();
    return false;
  }

  /** `waited`: the key was queued, and an operator may have paused it meanwhile. */
  #launch(ticket: Ticket & { waited?: boolean }, slot: Slot | undefined): void {
    const tracked = this.#fire(ticket)
      .catch((error) => this.#failed(ticket.key, error))
      .finally(() => {
        const wasFull = this.#active.size >= this.#options.concurrency;
        this.#active.delete(tracked);
        if (!(slot && this.#launchNext(slot)) && wasFull) this.#signal?.ring();
      });
    this.#active.add(tracked);
  }

  /** Gives a slot to the next queued key. While paused or closing it gives none; the keys come due again. */
  #launchNext(slot: Slot): boolean {
    let next = this.#slots.leave(slot, performance.now());
    while (next !== undefined && (this.held || this.closing.aborted)) {
      next = this.#slots.leave(next.slot, performance.now());
    }
    if (next !== undefined) this.#launch({ ...next.ticket, waited: true }, next.slot);
    return next !== undefined;
  }

  /** Handles an unexpected error: the lease expires and the batch is delivered again. */
  async #failed(key: string, error: unknown): Promise<void> {
    this.report(error);
    if (!isReply(error, "WRONGTYPE")) return;
    this.#queue.redis.logger.error({ key, err: error }, "a key of the wrong type was set aside");
    await this.#store.setAside(key).catch((failure) => this.report(failure));
  }

  async #fire(ticket: Ticket & { waited?: boolean }): Promise<void> {
    const began = performance.now();
    const attempt = await this.#attempt(ticket, began);
    if (attempt === undefined) return;
    const { held, batch, verdict, attempts } = attempt;
    if (batch === undefined) return this.#end.complete(held);
    const { leaseMs } = this.#options;
    const settleMs = Math.min(SETTLE_MS, leaseMs / 4);
    await this.#end.settle(batch, verdict, { attempts, until: began + leaseMs - settleMs / 2 });
  }

  /**
   * Takes a batch and passes it to the handler. The result has the batch only if somebody still needs it: items
   * that are garbage as soon as the handler returns cost a tenth of items that wait for the reply of complete.lua.
   */
  async #attempt(
    ticket: Ticket & { waited?: boolean },
    began: number,
  ): Promise<Attempt | undefined> {
    const batch = await this.#claim(ticket);
    if (batch === undefined) return undefined;
    const { leaseMs } = this.#options;
    const settleMs = Math.min(SETTLE_MS, leaseMs / 4);
    const leftMs = began + leaseMs - settleMs - performance.now();
    const attempts = batch.request.attempts ?? this.#options.attempts;
    let verdict: Verdict;
    if (leftMs <= 0) {
      verdict = { kind: "hold", reason: "the lease is nearly over", ms: 0 };
    } else if (batch.attempt > attempts) {
      // After a partial delivery, or after attempts whose dispatchers were killed.
      verdict = { kind: "dead", reason: `given up after ${attempts} attempts` };
    } else {
      verdict = await this.#handle(batch, leftMs);
    }
    this.#metrics.noteDelivery(batch, verdict, performance.now() - began);
    const { key, token } = batch;
    const isNeeded = verdict.kind !== "delivered" || this.listenerCount("delivered") > 0;
    return { held: { key, token }, batch: isNeeded ? batch : undefined, verdict, attempts };
  }

  async #claim({
    key,
    score,
    reserved,
    waited,
  }: Ticket & { waited?: boolean }): Promise<Batch | undefined> {
    const { maxItems, maxBytes } = this.#queue.options;
    const token = newToken();
    const got = await this.#store.get({
      ...{ key, token, batchId: newBatchId(), resume: true, maxBytes },
      maxItems: isSingle(key) ? 1 : maxItems,
      leaseMs: this.#options.leaseMs,
      reservation: { reserved, score, waited },
    });
    return got.status === "ok" ? batchOf({ key, token }, got) : undefined;
  }

  /** Calls the handler in a span that links to the pushes of the items. */
  async #handle(batch: Batch, leftMs: number): Promise<Verdict> {
    const running = new RunningBatch({ key: batch.key, leftMs, report: this.#reporter });
    this.#running.add(running);
    try {
      const work = () => this.#handler(batch, running) as Promise<unknown>;
      const returned = await inSpan(deliverySpan(batch), work);
      return this.#verdictOf(returned, batch);
    } catch (error) {
      return { kind: "retry", reason: reasonOf(error) };
    } finally {
      running.end();
      this.#running.delete(running);
    }
  }

  /** A return value that is not a verdict is a failed attempt, and is reported as an error. */
  #verdictOf(returned: unknown, batch: Batch): Verdict {
    try {
      return checkVerdict(returned, batch.items.length);
    } catch (error) {
      this.report(error);
      throw error;
    }
  }
}

/** Whether the promise resolves within `ms`. */
async function within(ended: Promise<true>, ms: number): Promise<boolean> {
  const enough = new AbortController();
  const late = sleep(ms, enough.signal).then(
    () => false,
    () => false, // it ended earlier
  );
  try {
    return await Promise.race([ended, late]);
  } finally {
    enough.abort();
  }
}
