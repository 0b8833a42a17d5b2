/** A wait that a caller can cancel. */
import { whenAborted } from "@ropeway/core/internal";
import { CancelledError } from "../errors.ts";

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
