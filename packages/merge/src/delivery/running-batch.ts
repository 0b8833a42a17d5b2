/**
 * A batch in the handler: how long its lease lasts, and the signal that ends it. Most handlers never read the
 * signal, and a signal with its timer costs more than the rest of a small batch. So both are made when the handler
 * reads it.
 */
import { TimeoutError } from "@ropeway/core";
import { guardSignal } from "@ropeway/core/internal";
import type { Handling } from "./dispatcher.ts";

/** The options of a RunningBatch. */
export interface RunningBatchOptions {
  readonly key: string;
  /** How long the handler may take. */
  readonly leftMs: number;
  /** Called with the errors of listeners that the handler adds to the signal. */
  readonly report: (error: unknown) => void;
}

/** The second argument of the handler, from its call to end(). */
export class RunningBatch implements Handling {
  readonly leftMs: number;
  declare readonly signal: AbortSignal;
  readonly #options: RunningBatchOptions;
  readonly #began: number = performance.now();
  #controller: AbortController | undefined;
  #lease: NodeJS.Timeout | undefined;
  #ended = false;
  #aborted: { readonly reason: unknown } | undefined;

  /** The getter of `signal`: one function for all, because a closure per object would cost a hidden class each. */
  static readonly #SIGNAL: PropertyDescriptor = {
    enumerable: true,
    get(this: RunningBatch): AbortSignal {
      return this.#signal();
    },
  };

  constructor(options: RunningBatchOptions) {
    this.leftMs = options.leftMs;
    this.#options = options;
    // An own property, so that a handler may copy the object.
    Object.defineProperty(this, "signal", RunningBatch.#SIGNAL);
  }

  /** Aborts the signal, also one that the handler has not read yet. */
  abort(reason: unknown): void {
    this.#aborted ??= { reason };
    clearTimeout(this.#lease);
    this.#controller?.abort(this.#aborted.reason);
  }

  /** The handler has returned: the end of the lease aborts nothing any more. */
  end(): void {
    this.#ended = true;
    clearTimeout(this.#lease);
  }

  #signal(): AbortSignal {
    if (this.#controller !== undefined) return this.#controller.signal;
    const { key, leftMs, report } = this.#options;
    this.#controller = new AbortController();
    const signal = guardSignal(this.#controller.signal, report);
    if (this.#aborted !== undefined) {
      this.#controller.abort(this.#aborted.reason);
    } else if (!this.#ended) {
      const overMs = this.#began + leftMs - performance.now();
      const end = () => this.abort(new TimeoutError(key, leftMs));
      if (overMs > 0) this.#lease = setTimeout(end, overMs);
      else end();
    }
    return signal;
  }
}
