/**
 * Many waits on one AbortSignal. With a listener per wait, Node would warn of a leak at the eleventh wait
 * that shares a signal, and each removal would walk a list. Here a signal has one listener and a set.
 */
const WAITS = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls `onAbort`, which must not throw, when the signal aborts; returns an unsubscribe function. */
export function whenAborted(signal: AbortSignal, onAbort: () => void): () => void {
  let waits = WAITS.get(signal);
  if (waits === undefined) {
    const all = new Set<() => void>();
    waits = all;
    WAITS.set(signal, all);
    const listener = () => {
      WAITS.delete(signal);
      for (const wait of all) wait(); // one that another one unsubscribes is not called
    };
    signal.addEventListener("abort", listener, { once: true });
  }
  const set = waits;
  set.add(onAbort);
  return () => set.delete(onAbort);
}
