/** Limits the calls to one service: some run, some wait, the rest is refused. */
import { OverloadedError } from "@ropeway/core";
import { resolveOptions, show, whenAborted } from "@ropeway/core/internal";
import { CancelledError, DeadlineExceededError } from "../errors.ts";
import { type BulkheadOptions, bulkheadTable } from "../options.ts";

/** The limits of a wait for a place. */
export interface EntryBounds {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** The places of one service. */
export class Bulkhead {
  readonly #service: string;
  readonly #options: Required<BulkheadOptions>;
  readonly #waiting = new Set<() => void>();
  #running = 0;

  constructor(service: string, options: BulkheadOptions) {
    this.#service = service;
    this.#options = resolveOptions(bulkheadTable, options);
  }

  /**
   * Resolves when there is a place. Throws OverloadedError if too many calls already wait, and
   * DeadlineExceededError or CancelledError if a limit is reached first.
   */
  async enter({ timeoutMs, signal }: EntryBounds): Promise<void> {
    if (this.#running < this.#options.running) {
      this.#running += 1;
      return;
    }
    const what = `service ${show(this.#service)}`;
    if (this.#waiting.size >= this.#options.waiting) {
      throw new OverloadedError(what, "too many calls are under way");
    }
    await new Promise<void>((resolve, reject) => {
      const end = (settle: () => void) => {
        this.#waiting.delete(turn);
        clearTimeout(timer);
        stopListening?.();
        settle();
      };
      const turn = () => end(resolve); // the place passes to the next call, so #running does not change
      const cancel = () =>
        end(() => reject(new CancelledError(`a call of ${what}`, signal?.reason)));
      const timer = setTimeout(
        () => end(() => reject(new DeadlineExceededError(`a call of ${what}`, timeoutMs))),
        Math.min(timeoutMs, 2 ** 31 - 1),
      );
      this.#waiting.add(turn);
      let stopListening: (() => void) | undefined;
      if (signal?.aborted) cancel();
      else if (signal !== undefined) stopListening = whenAborted(signal, cancel);
    });
  }

  leave(): void {
    for (const turn of this.#waiting) {
      turn();
      return;
    }
    this.#running -= 1;
  }
}
