/**
 * The base of every background role (mover, reaper, heartbeat, ...): a tick that is repeated until
 * close().
 *
 *              +------------------ wait the ms that tick returned, or until wake()
 *              v                                  |
 *   start() -> tick() ---- threw ----> onError, wait by backoff
 *              |
 *   close(): aborts the tick's signal, waits for the tick to end, never starts another
 *
 * A tick that throws does not end the loop; only close() does.
 */
import { Backoff, type BackoffOptions } from "./backoff.ts";
import { LONGEST_TIMER_MS, within } from "./wait.ts";

/** The work of a loop, and how its errors are handled. */
export interface LoopOptions {
  /** One round. Resolves with the ms to wait before the next one; 0 or undefined for no wait. */
  tick(signal: AbortSignal): Promise<number | undefined>;
  /** Called with every error of a tick, before the pause that follows. */
  onError(error: unknown): void;
  /** The pause after a tick that threw. @default 50 ms growing to 5 s */
  readonly backoff?: BackoffOptions;
  /**
   * How long close() waits for a tick that ignores its signal, for example because it waits for an unreachable
   * server. The tick must not start anything after its signal was aborted. @default until it ends
   */
  readonly closeWithinMs?: number;
}

const DEFAULT_BACKOFF: BackoffOptions = { baseMs: 50, maxMs: 5_000 };

/** A background loop that only close() ends. */
export class Loop implements AsyncDisposable {
  readonly #options: LoopOptions;
  readonly #abort = new AbortController();
  #running: Promise<void> | undefined;
  #wake: (() => void) | undefined;
  #wakeRequested = false;

  constructor(options: LoopOptions) {
    this.#options = options;
  }

  /** Starts the loop. A second call has no effect. */
  start(): this {
    if (this.#running === undefined && !this.#abort.signal.aborted) this.#running = this.#run();
    return this;
  }

  /** Ends the current pause: the next tick starts at once. */
  wake(): void {
    this.#wakeRequested = true;
    this.#wake?.();
  }

  /** Aborts the running tick and waits until it has ended, or for `closeWithinMs`. */
  async close(): Promise<void> {
    this.#abort.abort();
    this.#wake?.();
    const { closeWithinMs: timeoutMs } = this.#options;
    const running = this.#running ?? Promise.resolve();
    if (timeoutMs === undefined) await running;
    else await within(running, { timeoutMs, what: "the last tick" }).catch(() => {});
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #run(): Promise<void> {
    const signal = this.#abort.signal;
    const backoff = new Backoff(this.#options.backoff ?? DEFAULT_BACKOFF);
    while (!signal.aborted) {
      let pauseMs = 0;
      try {
        pauseMs = (await this.#options.tick(signal)) ?? 0;
        backoff.reset();
      } catch (error) {
        if (signal.aborted) return; // it threw because of the abort
        this.#options.onError(error);
        pauseMs = backoff.next();
      }
      if (pauseMs > 0) await this.#pause(pauseMs);
      else this.#wakeRequested = false;
    }
  }

  #pause(ms: number): Promise<void> {
    if (this.#wakeRequested || this.#abort.signal.aborted) {
      this.#wakeRequested = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        this.#wakeRequested = false;
        resolve();
      };
      const timer = setTimeout(done, Math.min(ms, LONGEST_TIMER_MS));
      this.#wake = done;
    });
  }
}
