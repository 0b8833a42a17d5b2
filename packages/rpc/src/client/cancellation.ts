/**
 * Many waits on one AbortSignal. With a listener per call, Node would warn of a leak at the eleventh call
 * that shares a signal, and each removal would walk a list. Here a signal has one listener and a set.
 */
import { CancelledError } from "../errors.ts";

const WAITS = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls `onAbort` when the signal aborts; returns an unsubscribe function. */
export function whenAborted(signal: AbortSignal, onAbort: () => void): () => void {
  let waits = WAITS.get(signal);
  if (waits === undefined) {
    const all = new Set<() => void>();
    waits = all;
    WAITS.set(signal, all);
    const listener = () => {
      WAITS.delete(signal);
      for (const wait of [...all]) wait();
    };
    signal.addEventListener("abort", listener, { once: true });
  }
  const set = waits;
  set.add(onAbort);
  return () => set.delete(onAbort);
}

/** Resolves after `ms`; rejects with CancelledError as soon as the signal aborts. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = () => {
      clearTimeout(timer);
      reject(new CancelledError("a wait", signal?.reason));
    };
    let stopListening: (() => void) | undefined;
    const timer = setTimeout(() => {
      stopListening?.();
      resolve();
    }, ms);
    if (signal?.aborted) cancel();
    else if (signal !== undefined) stopListening = whenAborted(signal, cancel);
  });
}
