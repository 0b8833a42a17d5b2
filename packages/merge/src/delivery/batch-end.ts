/**
 * Turns a verdict into one script:
 *
 *   delivered  complete.lua       retry, hold  release.lua, or bury.lua after the last attempt
 *   partial    settle.lua         dead         bury.lua            invalid  reject.lua
 *
 * After a lost connection the script is repeated as long as the lease can last. If the first call was applied,
 * Redis refuses the repetition because of its token.
 */
import { ConnectionLostError, LeaseLostError, type Logger, NotConnectedError } from "@ropeway/core";
import { within } from "@ropeway/core/internal";
import { newBatchId, newItemId } from "../queue/item.ts";
import type { Batch } from "../queue/queue.ts";
import type { Held, QueueStore } from "../store/queue-store.ts";
import { retryDelayMs } from "./backoff.ts";
import type { DispatcherOptions } from "./dispatcher-options.ts";
import type { Verdict } from "./verdict.ts";

/** Receives the outcomes of batches. */
export interface BatchEndListeners {
  readonly logger: Logger;
  leaseLost(): void;
  delivered(batch: Batch): void;
  failed(batch: Batch, failure: { reason: string; retryMs: number }): void;
  dead(batch: Batch, death: { letter: string; reason: string }): void;
  /** Called before a batch becomes a dead letter. Its error is reported and does not keep the batch from ending. */
  beforeDead(batch: Batch, reason: string): Promise<void>;
  error(error: unknown): void;
}

/** The bounds of a batch's end. */
export interface BatchBounds {
  /** The maximum number of attempts. */
  readonly attempts: number;
  /** The time, by performance.now(), after which the rest of the lease is reserved for the script. */
  readonly until: number;
}

const LONGEST_REASON = 1_000;

/** Ends batches. */
export class BatchEnd {
  readonly #store: QueueStore;
  readonly #options: Required<DispatcherOptions>;
  readonly #listeners: BatchEndListeners;

  constructor(
    store: QueueStore,
    options: Required<DispatcherOptions>,
    listeners: BatchEndListeners,
  ) {
    this.#store = store;
    this.#options = options;
    this.#listeners = listeners;
  }

  /** Ends a delivered batch. `delivered` is the batch for the listeners. */
  complete(held: Held, delivered?: Batch): Promise<void> {
    return this.#surely(held, async () => {
      await this.#store.complete(held);
      if (delivered !== undefined) this.#listeners.delivered(delivered);
    });
  }

  /** Carries out a verdict on a batch. */
  async settle(batch: Batch, given: Verdict, { attempts, until }: BatchBounds): Promise<void> {
    const verdict = shortened(given);
    const isLast = batch.attempt >= attempts;
    const bury = (reason: string) => this.#surely(batch, () => this.#bury(batch, reason, until));
    switch (verdict.kind) {
      case "delivered":
        return this.complete(batch, batch);
      case "dead":
        return bury(verdict.reason);
      case "invalid":
        return this.#surely(batch, () => this.#reject(batch, verdict));
      case "hold":
        return this.#surely(batch, () => this.#hold(batch, verdict));
      case "retry":
        if (!isLast) return this.#surely(batch, () => this.#retry(batch, verdict));
        return bury(`${verdict.reason}, after ${batch.attempt} attempts`);
      case "partial":
        return this.#surely(batch, () => this.#keepFailed(batch, verdict, isLast));
    }
  }

  async #hold(batch: Batch, { ms, reason }: Extract<Verdict, { kind: "hold" }>): Promise<void> {
    const delayMs = ms > 0 ? ms + Math.random() * this.#options.holdJitterMs : 0;
    await this.#store.release(batch, { delayMs, attempted: false, reason });
  }

  async #retry(batch: Batch, verdict: Extract<Verdict, { kind: "retry" }>): Promise<void> {
    const { reason, afterMs = 0 } = verdict;
    const retryMs = Math.max(retryDelayMs(batch.attempt, this.#options.backoff), afterMs);
    await this.#store.release(batch, { delayMs: retryMs, attempted: true, reason });
    this.#listeners.failed(batch, { reason, retryMs });
  }

  /** Removes the delivered items. After the last attempt, the others are taken once more to be buried. */
  async #keepFailed(
    batch: Batch,
    { failed, reason }: Extract<Verdict, { kind: "partial" }>,
    isLast: boolean,
  ): Promise<void> {
    const retryMs = isLast ? 0 : retryDelayMs(batch.attempt, this.#options.backoff);
    const given = { delayMs: retryMs, batchId: newBatchId(), reason, failed };
    await this.#store.settle(batch, given);
    this.#listeners.failed(batch, { reason, retryMs });
  }

  async #reject(
    batch: Batch,
    { positions, reason }: Extract<Verdict, { kind: "invalid" }>,
  ): Promise<void> {
    const letterId = newItemId();
    await this.#store.reject(batch, { letterId, reason, positions });
    this.#listeners.logger.warn(
      { key: batch.key, letter: letterId, reason },
      "items of a batch became a dead letter",
    );
    this.#listeners.dead(batch, { letter: letterId, reason });
  }

  async #bury(batch: Batch, reason: string, until: number): Promise<void> {
    try {
      // A callback that hangs must neither hold the slot for ever nor keep the batch from ending.
      const timeoutMs = Math.max(0, Math.floor(until - performance.now()));
      await within(this.#listeners.beforeDead(batch, reason), { timeoutMs, what: "beforeDead" });
    } catch (error) {
      if (isLost(error)) throw error;
      this.#listeners.error(error);
    }
    const letterId = newItemId();
    const items = await this.#store.bury(batch, { letterId, reason });
    if (items === 0) return; // deleted meanwhile
    this.#listeners.logger.warn(
      { key: batch.key, letter: letterId, items, reason },
      "a batch became a dead letter",
    );
    this.#listeners.dead(batch, { letter: letterId, reason });
  }

  async #surely({ key }: Held, end: () => Promise<void>): Promise<void> {
    const until = performance.now() + this.#options.leaseMs;
    for (let lost = false; ; lost = true) {
      try {
        return await end();
      } catch (error) {
        if (error instanceof LeaseLostError) {
          if (!lost) this.#listeners.leaseLost(); // after a lost connection the script may have been applied
          this.#listeners.logger.debug({ key, err: error }, "the lease was lost");
          return;
        }
        if (!isLost(error) || performance.now() > until) throw error;
      }
    }
  }
}

/** An error can have a message of any length, and Redis keeps the reason with each batch and each dead letter. */
function shortened(verdict: Verdict): Verdict {
  if (verdict.kind === "delivered" || verdict.reason.length <= LONGEST_REASON) return verdict;
  return { ...verdict, reason: `${verdict.reason.slice(0, LONGEST_REASON)}...` };
}

/** Whether the outcome of a command is unknown, or it could not be sent. */
export function isLost(error: unknown): boolean {
  return error instanceof ConnectionLostError || error instanceof NotConnectedError;
}
