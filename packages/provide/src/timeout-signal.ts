/**
 * AbortSignal.timeout() for AbortSignal.any(). Node 20 refers to the signals that any() combines only weakly. A timeout
 * that nobody else refers to is removed with the next garbage collection, and the combination never aborts. Node keeps a
 * timeout that has a listener.
 */
export function timeoutSignal(ms: number): AbortSignal {
  const signal = AbortSignal.timeout(ms);
  signal.addEventListener("abort", () => {}, { once: true });
  return signal;
}
