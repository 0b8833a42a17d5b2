/** Waiting, always with a bound or an AbortSignal, and never with a timer or listener left behind. */
import { AbortedError, InvalidArgumentError, TimeoutError } from "./errors.ts";

/** The longest wait a timer of Node can hold, 24.8 days: asked for more, it fires at once. */
export const LONGEST_TIMER_MS: number = 2 ** 31 - 1;

/**
 * Throws InvalidArgumentError unless it is an AbortSignal or undefined. Every function that takes a signal
 * from a user calls it before it begins: later, no caller would wait for the error.
 */
export function requireSignal(signal: unknown): asserts signal is AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return;
  throw new InvalidArgumentError("signal", signal, "an AbortSignal");
}

/** Resolves after `ms`; rejects with AbortedError as soon as the signal aborts. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    requireSignal(signal);
    if (signal?.aborted) {
      reject(new AbortedError("a wait", signal.reason));
      return;
    }
    const onAbort = () => {
      clearTimeout(timer);
      reject(new AbortedError("a wait", signal?.reason));
    };
    const timer = setTimeout(
      () => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      },
      Math.min(ms, LONGEST_TIMER_MS),
    );
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** The bounds of a wait: at least one of them should be given. */
export interface WaitBounds {
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** What is waited for, for the error's sentence. */
  readonly what?: string;
}

/** The promise's outcome, or TimeoutError / AbortedError when a bound comes first. */
export function within<T>(promise: Promise<T>, bounds: WaitBounds): Promise<T> {
  const { timeoutMs, signal, what = "a wait" } = bounds;
  return new Promise<T>((resolve, reject) => {
    promise.catch(() => {}); // also if the signal is refused
    requireSignal(signal);
    const onAbort = () => settle(() => reject(new AbortedError(what, signal?.reason)));
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(
            () => settle(() => reject(new TimeoutError(what, timeoutMs))),
            Math.min(timeoutMs, LONGEST_TIMER_MS),
          );
    const settle = (finish: () => void) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      finish();
    };
    promise.then(
      (value) => settle(() => resolve(value)),
      (error) => settle(() => reject(error)),
    );
    if (signal?.aborted) onAbort();
    else signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** A promise with its handles outside. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(reason: unknown): void;
}

/** Makes a Deferred (Promise.withResolvers arrives only with Node 22). */
export function deferred<T>(): Deferred<T> {
  let resolve: (value: T) => void = () => {};
  let reject: (reason: unknown) => void = () => {};
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
