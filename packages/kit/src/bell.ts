import { whenAborted } from "@ropeway/core/internal";

/** A wait that ring(), a timeout or an abort ends. A ring that came before wait() counts. */
export class Bell {
  readonly #signal: AbortSignal | undefined;
  readonly #stopListening: (() => void) | undefined;
  #rung = false;
  #wake: () => void = () => {};

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal;
    this.#stopListening = signal && whenAborted(signal, () => this.ring());
  }

  readonly ring = (): void => {
    this.#rung = true;
    this.#wake();
  };

  async wait(ms: number): Promise<void> {
    if (!this.#rung && this.#signal?.aborted !== true) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#rung = false;
  }

  close(): void {
    this.#stopListening?.();
  }
}
