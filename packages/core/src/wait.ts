/** Waiting, always with a limit or an AbortSignal, and never with a timer or listener left behind. */
import { AbortedError, InvalidArgumentError, TimeoutError } from "./errors.ts";
import { whenAborted } from "./when-aborted.ts";

/** The longest delay of a timer in Node, 24.8 days. A longer one would fire at once. */
export const LONGEST_TIMER_MS: number = 2 ** 31 - 1;

/**
 * Throws InvalidArgumentError unless it is an AbortSignal or undefined. Every function that accepts a signal
 * from a user calls this before it begins: later, no caller would receive the error.
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
        stopListening?.();
        resolve();
      },
      Math.min(ms, LONGEST_TIMER_MS),
    );
    const stopListening = signal && whenAborted(signal, onAbort);
  });
}

/** The limits of a wait. At least one of them should be given. */
export interface WaitBounds {
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** The subject of the wait, for the error message. */
  readonly what?: string;
}

/** The promise's outcome, or TimeoutError / AbortedError if a limit is reached first. */
export function within<T>(promise: Promise<T>, bounds: WaitBounds): Promise<T> {
  const { timeoutMs, signal, what = "a wait" } = bounds;
  return new Promise<T>((resolve, reject) => {
    promise.catch(() => {}); // also if the signal is refused
    requireSignal(signal);
    const onAbort = () => settle(() => reject(new AbortedError(what, signal?.reason)));
    let stopListening: (() => void) | undefined;
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(
            () => settle(() => reject(new TimeoutError(what, timeoutMs))),
            Math.min(timeoutMs, LONGEST_TIMER_MS),
          );
    const settle = (finish: () => void) => {
      clearTimeout(timer);
      stopListening?.();
      finish();
    };
    promise.then(
      (value) => settle(() => resolve(value)),
      (error) => settle(() => reject(error)),
    );
    if (signal?.aborted) onAbort();
    else stopListening = signal && whenAborted(signal, onAbort);
  });
}

/** A promise with its resolve and reject functions. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(reason: unknown): void;
}

/** Creates a Deferred (Promise.withResolvers needs Node 22). */
export function deferred<T>(): Deferred<T> {
  let resolve: (value: T) => void = () => {};
  let reject: (reason: unknown) => void = () => {};
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
