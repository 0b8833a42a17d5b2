/**
 * The wait of an idle worker: one blocking command on the wake keys of its queues. The wait is bounded,
 * so a lost wake-up (its receiver died) costs at most `idleMs`.
 */
import { Backoff, type BlockingConnection } from "@ropeway/core/internal";
import { waitForWork } from "../store/queue-store.ts";
import type { Source } from "./source.ts";

/** The member of a wake key that is not a job. */
const MARKER = "0";

/** The callbacks of a watcher. */
export interface WatcherEvents {
  /** There may be work in these queues. */
  onWake(sources: readonly Source[]): void;
  /** A job was handed over to this worker; also called while closing. */
  onHandedOver(source: Source, job: string): void;
  /** The wait has ended and can be started again. */
  onReturned(): void;
  onError(error: unknown): void;
}

/** How long to wait, and the callbacks. */
export interface WatcherOptions extends WatcherEvents {
  readonly idleMs: number;
}

/** Blocks while there is no work. */
export class WakeWatcher {
  readonly #connection: BlockingConnection;
  readonly #sources: readonly Source[];
  readonly #options: WatcherOptions;
  readonly #backoff = new Backoff({ baseMs: 50, maxMs: 2_000 });
  readonly #closing = new AbortController();
  #watching: Promise<void> | undefined;

  constructor(connection: BlockingConnection, sources: readonly Source[], options: WatcherOptions) {
    this.#connection = connection;
    this.#sources = sources;
    this.#options = options;
  }

  /** Watches until something happens; a second call while watching changes nothing. */
  watch(): void {
    if (this.#closing.signal.aborted) return;
    this.#watching ??= this.#wait().finally(() => {
      this.#watching = undefined;
      this.#options.onReturned();
    });
  }

  /** Ends the wait under way, because the worker takes no more jobs. */
  interrupt(): void {
    this.#connection.interrupt();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#connection.close();
    await this.#watching;
  }

  async #wait(): Promise<void> {
    const { signal } = this.#closing;
    const stores = this.#sources.map((source) => source.store);
    let woken = this.#sources;
    try {
      const wait = { blockMs: this.#options.idleMs, signal };
      const reply = await waitForWork(this.#connection, stores, wait);
      this.#backoff.reset();
      if (reply !== null) {
        woken = woken.filter((source) => source.store.keys.wake === reply[0]);
        const [source] = woken;
        if (source !== undefined && reply[1] !== MARKER) {
          this.#options.onHandedOver(source, reply[1] as string);
          return;
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#options.onError(error);
      await new Promise((resolve) => setTimeout(resolve, this.#backoff.next()));
    }
    if (!signal.aborted) this.#options.onWake(woken);
  }
}
