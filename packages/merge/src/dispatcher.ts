/**
 * Fires what is due. Any number of dispatchers work on one prefix:
 *
 *   due.lua reserves due keys for this one --> a place in the lane of its origin (lanes.ts)
 *      ^                                              |
 *      |                                              v
 *      |                                       get.lua locks it (the lease) --> handler --> verdict
 *      |                                                                                        |
 *      '---- wait: the next time, a push, a free slot <---- complete | release | settle | bury -'
 *
 * Killed at any point, it leaves a reservation that ends in seconds or a lease that ends by itself; the
 * batch is then handed to another. A verdict after the lease is refused by its token.
 */
import {
  type BackoffOptions,
  backoffDelay,
  ConnectionLostError,
  isReply,
  type Logger,
  NotConnectedError,
} from "@ropeway/core";
import { inSpan, Loop, newToken, reasonOf, resolveOptions, sleep } from "@ropeway/core/internal";
import type { Handling } from "./courier.ts";
import { type DispatcherOptions, dispatcherOptions } from "./dispatcher-options.ts";
import { LeaseLostError } from "./errors.ts";
import { newItemId } from "./item.ts";
import { Lanes, type Place, type Ticket } from "./lanes.ts";
import { DeliveryMetrics, deliverySpan } from "./metrics.ts";
import { PushSignal } from "./push-signal.ts";
import { type Batch, batchOf, type MergeQueue, newBatchId, secondsText } from "./queue.ts";
import * as scripts from "./scripts.ts";
import { isSingle, originOf } from "./target.ts";
import { DELIVERED, type Verdict } from "./verdict.ts";

/** Does something with a batch; returning nothing means all of it arrived, throwing means again. */
export type Handler = (batch: Batch, handling: Handling) => Promise<Verdict | undefined>;

/** After a look that launched nothing we look at most this often. */
const CALM_MS = 5;
/** Keys that one look reserves at most; others want some too. */
const MOST_KEYS = 64;
/** The longest sleep: recovery for whatever was missed. */
const LONGEST_SLEEP_MS = 5_000;
/** What the last word about a batch may need of its lease: a quarter, at most a second. */
const SETTLE_MS = 1_000;

/** A background role that takes due batches to a handler. */
export class Dispatcher implements AsyncDisposable {
  readonly #queue: MergeQueue;
  readonly #handler: Handler;
  readonly #options: Required<DispatcherOptions>;
  readonly #logger: Logger;
  readonly #loop: Loop;
  readonly #active = new Set<Promise<void>>();
  readonly #lanes: Lanes;
  /** One per batch in the handler's hands: aborted when its lease ends, or when we must close. */
  readonly #running = new Set<AbortController>();
  readonly #signal: PushSignal;
  readonly #metrics = new DeliveryMetrics();
  #closed: Promise<void> | undefined;
  #lookedAt = 0;

  private constructor(
    queue: MergeQueue,
    handler: Handler,
    inside: { options: Required<DispatcherOptions>; signal: PushSignal },
  ) {
    this.#queue = queue;
    this.#handler = handler;
    this.#options = inside.options;
    this.#signal = inside.signal;
    const { perOrigin: width, reserveMs } = inside.options;
    this.#lanes = new Lanes({ width, reserveMs });
    this.#logger = queue.redis.logger;
    this.#loop = new Loop({
      tick: (signal) => this.#tick(signal),
      onError: (error) => this.#logger.warn({ err: error }, "cannot look for due keys"),
      backoff: { baseMs: 50, maxMs: 2_000 },
    });
  }

  /** Starts to fire. */
  static async start(
    queue: MergeQueue,
    handler: Handler,
    options?: DispatcherOptions,
  ): Promise<Dispatcher> {
    const resolved = resolveOptions(dispatcherOptions, options);
    const signal = await PushSignal.open(queue.redis, queue.keys.channel);
    const dispatcher = new Dispatcher(queue, handler, { options: resolved, signal });
    dispatcher.#loop.start();
    return dispatcher;
  }

  /** How many batches are in the handler's hands. */
  get active(): number {
    return this.#active.size;
  }

  /** Takes no more, lets the running batches end (bounded), then gives the others back. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    await this.#loop.close();
    const bound = setTimeout(() => {
      for (const running of this.#running) running.abort();
    }, this.#options.closeWithinMs);
    await Promise.all(this.#active);
    clearTimeout(bound);
    await this.#signal.close();
  }

  /** One look for due keys; waits here until the next look is worth it. */
  async #tick(signal: AbortSignal): Promise<number> {
    const free = this.#options.concurrency - this.#active.size;
    if (free <= 0) {
      await this.#signal.wait(this.#signal.count, LONGEST_SLEEP_MS, signal);
      return 0;
    }
    const calm = this.#lookedAt + CALM_MS - performance.now();
    if (calm > 0) await sleep(calm, signal);
    const seen = this.#signal.count;
    const { keys } = this.#queue;
    const found = await this.#queue.redis.run(
      scripts.due,
      [keys.timer, keys.paused, keys.pausedKeys],
      [Math.min(free, MOST_KEYS), this.#options.reserveMs],
    );
    const launched = found.keys.filter((due) => this.#admit({ ...due, reserved: found.reserved }));
    if (launched.length > 0) return 0;
    this.#lookedAt = performance.now();
    if (found.keys.length > 0) return 0; // others may be due behind those whose origin is full
    const next = found.nextMs < 0 ? LONGEST_SLEEP_MS : Math.min(found.nextMs, LONGEST_SLEEP_MS);
    await this.#signal.wait(seen, next, signal);
    return 0;
  }

  /** Starts on a key if its origin has room; if not, it stands in line or comes due again. */
  #admit(ticket: Ticket): boolean {
    const origin = originOf(ticket.key);
    if (origin === undefined) {
      this.#launch(ticket, undefined);
      return true;
    }
    const place = this.#lanes.enter(origin, ticket, performance.now());
    if (typeof place === "object") {
      this.#launch(ticket, place);
      return true;
    }
    this.#metrics.noteOriginFull();
    return false;
  }

  #launch(ticket: Ticket, place: Place | undefined): void {
    const { key } = ticket;
    const running = this.#fire(ticket)
      .catch((error) => {
        if (isReply(error, "WRONGTYPE")) return this.#setAside(key, error);
        throw error;
      })
      // Whatever it was, the lease ends by itself and the batch comes again.
      .catch((error) => this.#logger.warn({ key, err: error }, "a batch is left to its lease"));
    const tracked = running.finally(() => {
      const full = this.#active.size === this.#options.concurrency;
      this.#active.delete(tracked);
      const next = place && this.#lanes.leave(place, performance.now());
      if (next !== undefined && this.#closed === undefined) this.#launch(next.ticket, next.place);
      else if (full) this.#signal.ring();
    });
    this.#active.add(tracked);
  }

  async #fire(ticket: Ticket): Promise<void> {
    const began = performance.now();
    const batch = await this.#claim(ticket);
    if (batch === undefined) return;
    const { leaseMs, maxAttempts } = this.#options;
    const settleMs = Math.min(SETTLE_MS, leaseMs / 4);
    const leftMs = began + leaseMs - settleMs - performance.now();
    if (leftMs <= 0) return this.#release(batch, { kind: "hold", reason: "too late", ms: 0 });
    let verdict: Verdict;
    if (batch.attempt > maxAttempts) {
      // Attempts that ended without a verdict took their dispatcher with them.
      verdict = { kind: "dead", reason: `given up after ${maxAttempts} attempts` };
    } else {
      verdict = await this.#handle(batch, leftMs);
    }
    this.#metrics.noteDelivery(batch, verdict, performance.now() - began);
    await this.#settle(batch, verdict);
  }

  async #claim({ key, score, reserved }: Ticket): Promise<Batch | undefined> {
    const { keys, options, redis } = this.#queue;
    const token = newToken();
    const number = isSingle(key) ? 1 : options.maxItems;
    const got = await redis.run(scripts.get, keys.unit(key), [
      ...[key, number, this.#options.leaseMs, token, newBatchId(), options.maxBytes],
      ...[1, 1, reserved, score],
    ]);
    return got.status === "ok" ? batchOf(key, token, got) : undefined;
  }

  /** A key that is no queue at all would be due for ever. */
  async #setAside(key: string, error: unknown): Promise<void> {
    const { keys, redis } = this.#queue;
    this.#logger.error({ key, err: error }, "a key of the wrong type was set aside");
    const options = { key: keys.timer, repeatable: true };
    const now = await this.#after(0);
    await redis.send(["ZADD", keys.broken, String(now), key], options);
    await redis.send(["ZREM", keys.timer, key], options);
  }

  /** In a span that links to whoever pushed the items. */
  async #handle(batch: Batch, leftMs: number): Promise<Verdict> {
    const running = new AbortController();
    const { signal } = running;
    const lease = setTimeout(() => running.abort(), leftMs);
    this.#running.add(running);
    try {
      const work = () => this.#handler(batch, { leftMs, signal });
      return (await inSpan(deliverySpan(batch), work)) ?? DELIVERED;
    } catch (error) {
      return { kind: "retry", reason: reasonOf(error) };
    } finally {
      clearTimeout(lease);
      this.#running.delete(running);
    }
  }

  async #settle(batch: Batch, verdict: Verdict): Promise<void> {
    const { maxAttempts } = this.#options;
    const spent = batch.attempt >= maxAttempts;
    switch (verdict.kind) {
      case "delivered":
        return this.#surely(batch, async () => {
          await this.#queue.complete(batch.key, batch.token);
        });
      case "dead":
        return this.#surely(batch, () => this.#bury(batch, verdict.reason));
      case "spoiled":
        return this.#surely(batch, () => this.#sieve(batch, verdict));
      case "hold":
        return this.#release(batch, verdict);
      case "retry":
        if (!spent) return this.#release(batch, verdict);
        return this.#surely(batch, () =>
          this.#bury(batch, `${verdict.reason}, after ${batch.attempt} attempts`),
        );
      case "partial":
        return this.#surely(batch, () => this.#keepFailed(batch, verdict, spent));
    }
  }

  #release(batch: Batch, verdict: Extract<Verdict, { kind: "hold" | "retry" }>): Promise<void> {
    const tried = verdict.kind === "retry";
    const delayMs = tried
      ? Math.max(this.#retryMs(batch.attempt), verdict.afterMs ?? 0)
      : verdict.ms + (verdict.ms > 0 ? Math.random() * this.#options.holdJitterMs : 0);
    return this.#surely(batch, async () => {
      const ontime = await this.#after(delayMs);
      const options = { ontime, attempted: tried, reason: verdict.reason };
      await this.#queue.release(batch.key, batch.token, options);
    });
  }

  async #keepFailed(
    batch: Batch,
    verdict: Extract<Verdict, { kind: "partial" }>,
    spent: boolean,
  ): Promise<void> {
    const { keys, redis } = this.#queue;
    const ontime = spent ? 0 : await this.#after(this.#retryMs(batch.attempt));
    const id = newBatchId();
    await redis.run(scripts.settle, keys.unit(batch.key), [
      ...[batch.key, keys.channel, batch.token, secondsText(ontime), id, verdict.reason],
      ...verdict.failed,
    ]);
  }

  async #sieve(batch: Batch, verdict: Extract<Verdict, { kind: "spoiled" }>): Promise<void> {
    const { keys, redis } = this.#queue;
    const { positions, reason } = verdict;
    const id = newItemId();
    const all = [...keys.unit(batch.key), ...keys.letter(id, batch.key)];
    const args = [batch.key, keys.channel, batch.token, id, reason, ...positions];
    await redis.run(scripts.sieve, all, args);
    this.#logger.warn({ key: batch.key, letter: id, reason }, "items were taken out of a batch");
  }

  async #bury(batch: Batch, reason: string): Promise<void> {
    const { keys, redis } = this.#queue;
    const id = newItemId();
    const all = [...keys.unit(batch.key), ...keys.letter(id, batch.key)];
    const args = [batch.key, keys.channel, batch.token, "", id, reason];
    const moved = await redis.run(scripts.bury, all, args);
    if (moved < 0) throw new LeaseLostError(batch.key, "bury");
    this.#logger.warn({ key: batch.key, letter: id, items: moved, reason }, "a batch is dead");
  }

  #retryMs(attempt: number): number {
    const retry: BackoffOptions = this.#options.retry;
    return backoffDelay(attempt, retry);
  }

  /** Unix seconds of Redis, `ms` from now. */
  async #after(ms: number): Promise<number> {
    const { redis, keys } = this.#queue;
    const time = await redis.send<readonly string[]>(["TIME"], {
      key: keys.timer,
      repeatable: true,
    });
    return Number(time[0]) + Number(time[1]) / 1e6 + ms / 1_000;
  }

  /** Says the last word about a batch even over a lost connection, as long as the lease can last. */
  async #surely(batch: Batch, say: () => Promise<void>): Promise<void> {
    const until = performance.now() + this.#options.leaseMs;
    for (let lost = false; ; lost = true) {
      try {
        return await say();
      } catch (error) {
        if (error instanceof LeaseLostError) {
          if (!lost) this.#metrics.noteLeaseLost(); // after a loss it may well have been said
          this.#logger.debug({ key: batch.key, err: error }, "the batch was not ours any more");
          return;
        }
        const repeat = error instanceof ConnectionLostError || error instanceof NotConnectedError;
        if (!repeat || performance.now() > until) throw error;
      }
    }
  }
}
