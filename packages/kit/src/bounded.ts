/**
 * The bound of a command that acquires. A command waits for Redis as long as the connection allows,
 * `offlineWaitMs`, which does not depend on how long the caller wants to wait.
 *
 * Redis may still run a command that the caller does not wait for any more. The caller undoes it after it
 * has settled.
 */
import { AbortedError, type Redis } from "@ropeway/core";
import { whenAborted } from "@ropeway/core/internal";
import { NotAcquiredError } from "./errors.ts";
import { LONGEST_TIMER_MS } from "./timer.ts";

/** A Redis that is connected has at least this long to reply: a short `waitMs` does not limit a round trip. */
const REPLY_MS = 1_000;

/** How long the caller waits. */
export interface Bounds {
  /** Names the operation in errors. */
  readonly what: string;
  /** null or 0: as long as the connection allows. */
  readonly waitMs: number | null;
  readonly signal?: AbortSignal | undefined;
  /** What to throw when `waitMs` is over. */
  readonly timedOut: () => Error;
}

/** The bounds of acquiring `what`. */
export function acquiring(
  what: string,
  { waitMs, signal }: Pick<Bounds, "waitMs" | "signal">,
): Bounds {
  const timedOut = () => new NotAcquiredError(what, waitMs ?? 0);
  return { what: `acquiring ${what}`, waitMs, signal, timedOut };
}

/**
 * What was handed over, once its time is prolonged: until then it has only the time of its place in the queue.
 * If that fails, the caller does not get it, so it must not be renewed any more.
 */
export async function prolonged<H extends { release(): Promise<unknown> }>(
  held: H,
  prolonging: Promise<unknown>,
): Promise<H> {
  try {
    await prolonging;
    return held;
  } catch (error) {
    held.release().catch(() => {}); // its lease ends by itself
    throw error;
  }
}

/** The outcome of a command. Throws AbortedError, or what `timedOut` returns, if a bound comes first. */
export function bounded<T>(redis: Redis, running: Promise<T>, bounds: Bounds): Promise<T> {
  const { what, waitMs, signal, timedOut } = bounds;
  return new Promise<T>((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    let stopListening: (() => void) | undefined;
    const settle = (finish: () => void) => {
      clearTimeout(timer);
      stopListening?.();
      finish();
    };
    const onAbort = () => settle(() => reject(new AbortedError(what, signal?.reason)));
    const onTime = (leftMs: number) => {
      if (!redis.connected || leftMs <= 0) settle(() => reject(timedOut()));
      else timer = setTimeout(() => onTime(0), leftMs);
    };
    if (waitMs !== null && waitMs > 0) {
      const firstMs = Math.min(waitMs, LONGEST_TIMER_MS);
      timer = setTimeout(() => onTime(REPLY_MS - waitMs), firstMs);
    }
    running.then(
      (value) => settle(() => resolve(value)),
      (error) => settle(() => reject(error)),
    );
    if (signal?.aborted) onAbort();
    else stopListening = signal && whenAborted(signal, onAbort);
  });
}
