/**
 * Signals for functions of users. In Node, an error of a signal's listener becomes an uncaught exception,
 * which ends the process. A guarded signal reports it instead.
 */

type Guard = (event: Event) => Promise<void>;
type Listener = ((event: Event) => unknown) | { handleEvent(event: Event): unknown };

/**
 * Guards every listener that is added to the signal from now on, also by `onabort`; returns the signal. Errors and
 * rejections of listeners go to `report`. Signals derived from it with AbortSignal.any() are not guarded.
 */
export function guardSignal(signal: AbortSignal, report: (error: unknown) => void): AbortSignal {
  const guards = new WeakMap<Listener, Guard>();
  const guardOf = (listener: Listener): Guard | Listener => {
    // Node throws its own error for other values.
    if (typeof listener !== "function" && typeof listener?.handleEvent !== "function")
      return listener;
    const known = guards.get(listener);
    if (known !== undefined) return known; // a listener that is added twice is called once, as without a guard
    const guard: Guard = async (event) => {
      try {
        await (typeof listener === "function"
          ? listener.call(signal, event)
          : listener.handleEvent(event));
      } catch (error) {
        report(error);
      }
    };
    guards.set(listener, guard);
    return guard;
  };
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (type: string, listener: Listener, options?: object | boolean) =>
    add(type, guardOf(listener), options);
  signal.removeEventListener = (type: string, listener: Listener, options?: object | boolean) =>
    remove(type, guards.get(listener) ?? listener, options);
  return signal;
}
