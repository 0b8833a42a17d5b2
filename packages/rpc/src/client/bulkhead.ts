/** Bounds the calls to one service: some run, some wait their turn, the rest is refused. */
import { resolveOptions } from "@ropeway/core/internal";
import { CancelledError, OverloadedError } from "../errors.ts";
import { type BulkheadOptions, bulkheadTable } from "../options.ts";

/** One per service. */
export class Bulkhead {
  readonly #service: string;
  readonly #options: Required<BulkheadOptions>;
  readonly #waiting = new Set<() => void>();
  #running = 0;

  constructor(service: string, options: BulkheadOptions) {
    this.#service = service;
    this.#options = resolveOptions(bulkheadTable, options);
  }

  /** Resolves when there is room; throws if too many wait already or the signal aborts. */
  async enter(signal?: AbortSignal): Promise<void> {
    if (this.#running < this.#options.running) {
      this.#running += 1;
      return;
    }
    if (this.#waiting.size >= this.#options.waiting) {
      throw new OverloadedError(this.#service, "too many calls are under way");
    }
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => {
        this.#waiting.delete(turn);
        reject(new CancelledError(`a call of ${this.#service}`, signal?.reason));
      };
      const turn = () => {
        signal?.removeEventListener("abort", onAbort);
        resolve(); // the place is handed over: #running stays as it is
      };
      this.#waiting.add(turn);
      if (signal?.aborted) onAbort();
      else signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  leave(): void {
    for (const turn of this.#waiting) {
      this.#waiting.delete(turn);
      turn();
      return;
    }
    this.#running -= 1;
  }
}
