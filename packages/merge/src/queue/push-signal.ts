/**
 * The receiving end of the push channel: wakes every waiter. A wake-up between checking and waiting is not
 * lost, because the wait starts from a count that was read before the check:
 *
 *   seen = signal.count  ->  check for due keys  ->  signal.wait(seen, ...)   returns at once if it rang
 *
 * After a lost connection it rings by itself, because messages may have been missed. For a Redis user without
 * rights on the channel it rings a few times per second, so that everything works, but later.
 */
import { isReply, type Redis } from "@ropeway/core";
import type { Subscriber } from "@ropeway/core/internal";

/** How often it rings for a user without channels. */
const DEAF_MS = 200;

/** A signal that callers can wait for. */
export class PushSignal implements AsyncDisposable {
  /** Undefined for a user without channels. */
  readonly #subscriber: Subscriber | undefined;
  readonly #waiting = new Set<() => void>();
  #count = 0;

  private constructor(subscriber: Subscriber | undefined) {
    this.#subscriber = subscriber;
  }

  /** Subscribes to the channel. */
  static async open(redis: Redis, channel: string): Promise<PushSignal> {
    const subscriber = await redis.subscriber("merge-signal");
    const signal = new PushSignal(subscriber);
    const ring = () => signal.ring();
    subscriber.onGap(ring);
    try {
      await subscriber.subscribe(channel, ring);
    } catch (error) {
      await subscriber.close();
      if (!isReply(error, "NOPERM")) throw error;
      redis.logger.warn({ channel }, "no rights on channels: pushes are polled");
      return new PushSignal(undefined);
    }
    return signal;
  }

  /** How often it has rung. */
  get count(): number {
    return this.#count;
  }

  /** Wakes all waiters. */
  ring(): void {
    this.#count += 1;
    for (const wake of this.#waiting) wake();
  }

  /** Resolves when it has rung since `seen`, after `timeoutMs`, or when the signal aborts. */
  wait(seen: number, timeoutMs: number, signal?: AbortSignal): Promise<"push" | "timeout"> {
    if (this.#count !== seen) return Promise.resolve("push");
    if (signal?.aborted) return Promise.resolve("timeout");
    const isDeaf = this.#subscriber === undefined && timeoutMs > DEAF_MS;
    return new Promise((resolve) => {
      const end = (outcome: "push" | "timeout") => {
        clearTimeout(timer);
        this.#waiting.delete(onPush);
        signal?.removeEventListener("abort", onAbort);
        resolve(outcome);
      };
      const onPush = () => end("push");
      const onAbort = () => end("timeout");
      const timer = isDeaf ? setTimeout(onPush, DEAF_MS) : setTimeout(onAbort, timeoutMs);
      this.#waiting.add(onPush);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  async close(): Promise<void> {
    await this.#subscriber?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
