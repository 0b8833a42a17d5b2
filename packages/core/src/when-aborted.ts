/**
 * Many waits on one AbortSignal. With a listener per wait, Node would warn of a leak at the eleventh wait
 * that shares a signal, and each removal would walk a list. Here a signal has one listener and a set.
 *
 * The listener exists only while somebody waits: Node keeps a signal of AbortSignal.any() or AbortSignal.timeout()
 * in memory as long as it has a listener.
 */
interface Waits {
  readonly all: Set<() => void>;
  readonly listener: () => void;
}

const WAITS = new WeakMap<AbortSignal, Waits>();

/** Calls `onAbort`, which must not throw, when the signal aborts; returns an unsubscribe function. */
export function whenAborted(signal: AbortSignal, onAbort: () => void): () => void {
  const { all, listener } = WAITS.get(signal) ?? listen(signal);
  all.add(onAbort);
  return () => {
    if (!all.delete(onAbort) || all.size > 0 || WAITS.get(signal)?.all !== all) return;
    WAITS.delete(signal);
    signal.removeEventListener("abort", listener);
  };
}

function listen(signal: AbortSignal): Waits {
  const all = new Set<() => void>();
  const listener = () => {
    WAITS.delete(signal);
    for (const wait of all) wait(); // one that another one unsubscribes is not called
  };
  const waits = { all, listener };
  WAITS.set(signal, waits);
  signal.addEventListener("abort", listener, { once: true });
  return waits;
}
