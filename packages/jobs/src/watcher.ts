/**
 * The wait of an idle worker: one blocking command on the wake keys of its queues. The wait is bounded,
 * so a wake-up that was lost (its receiver died) costs at most `idleMs`.
 */
import { Backoff, type BlockingConnection } from "@ropeway/core/internal";
import type { Lane } from "./lane.ts";

/** The member of a wake key that is no job. */
const MARKER = "0";

/** What a watcher tells. */
export interface WatcherEvents {
  /** There may be work in these lanes. */
  onWake(lanes: readonly Lane[]): void;
  /** A job was handed over to us; also told while closing. */
  onHandedOver(lane: Lane, job: string): void;
  /** The wait is over: there may be reason for the next. */
  onReturned(): void;
  onError(error: unknown): void;
}

/** Blocks while there is nothing to do. */
export class Watcher {
  readonly #connection: BlockingConnection;
  readonly #lanes: readonly Lane[];
  readonly #idleMs: number;
  readonly #events: WatcherEvents;
  readonly #backoff = new Backoff({ baseMs: 50, maxMs: 2_000 });
  readonly #closing = new AbortController();
  #watching: Promise<void> | undefined;

  constructor(connection: BlockingConnection, lanes: readonly Lane[], options: WatcherOptions) {
    this.#connection = connection;
    this.#lanes = lanes;
    this.#idleMs = options.idleMs;
    this.#events = options;
  }

  /** Watches until something happens; a second call while watching changes nothing. */
  watch(): void {
    if (this.#closing.signal.aborted) return;
    this.#watching ??= this.#wait().finally(() => {
      this.#watching = undefined;
      this.#events.onReturned();
    });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#connection.close();
    await this.#watching;
  }

  async #wait(): Promise<void> {
    const { signal } = this.#closing;
    const keys = this.#lanes.map((lane) => lane.store.keys.wake);
    let lanes = this.#lanes;
    try {
      const command = ["BZPOPMIN", ...keys, String(this.#idleMs / 1_000)];
      const reply = await this.#connection.send<readonly string[]>(command, {
        blockMs: this.#idleMs,
        signal,
      });
      this.#backoff.reset();
      if (reply !== null) {
        lanes = lanes.filter((lane) => lane.store.keys.wake === reply[0]);
        const [lane] = lanes;
        if (lane !== undefined && reply[1] !== MARKER) {
          this.#events.onHandedOver(lane, reply[1] as string);
          return;
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#events.onError(error);
      await new Promise((resolve) => setTimeout(resolve, this.#backoff.next()));
    }
    if (!signal.aborted) this.#events.onWake(lanes);
  }
}

/** How long to wait, and whom to tell. */
export interface WatcherOptions extends WatcherEvents {
  readonly idleMs: number;
}
