/**
 * The other end of the push channel: wakes every waiter. A wake-up between looking and waiting is not
 * lost, because waiting starts from a number that was read before looking:
 *
 *   seen = signal.count  ->  look for due keys  ->  signal.wait(seen, ...)    returns at once if it rang
 *
 * After a loss of the connection it rings by itself: messages may have been missed.
 */
import type { Redis } from "@ropeway/core";
import type { Subscriber } from "@ropeway/core/internal";

/** A bell that can be waited for. */
export class PushSignal implements AsyncDisposable {
  readonly #subscriber: Subscriber;
  readonly #waiting = new Set<() => void>();
  #count = 0;

  private constructor(subscriber: Subscriber) {
    this.#subscriber = subscriber;
  }

  /** Starts to listen. */
  static async open(redis: Redis, channel: string): Promise<PushSignal> {
    const subscriber = await redis.subscriber("merge-signal");
    const signal = new PushSignal(subscriber);
    const ring = () => signal.ring();
    subscriber.onGap(ring);
    try {
      await subscriber.subscribe(channel, ring);
    } catch (error) {
      await subscriber.close();
      throw error;
    }
    return signal;
  }

  /** How often it has rung. */
  get count(): number {
    return this.#count;
  }

  /** Wakes everyone who waits. */
  ring(): void {
    this.#count += 1;
    for (const wake of this.#waiting) wake();
  }

  /** Resolves when it has rung since `seen`, after `timeoutMs`, or when the signal aborts. */
  wait(seen: number, timeoutMs: number, signal?: AbortSignal): Promise<"push" | "timeout"> {
    if (this.#count !== seen) return Promise.resolve("push");
    if (signal?.aborted) return Promise.resolve("timeout");
    return new Promise((resolve) => {
      const end = (outcome: "push" | "timeout") => {
        clearTimeout(timer);
        this.#waiting.delete(onPush);
        signal?.removeEventListener("abort", onAbort);
        resolve(outcome);
      };
      const onPush = () => end("push");
      const onAbort = () => end("timeout");
      const timer = setTimeout(() => end("timeout"), timeoutMs);
      this.#waiting.add(onPush);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  async close(): Promise<void> {
    await this.#subscriber.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
