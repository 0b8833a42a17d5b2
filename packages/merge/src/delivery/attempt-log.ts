/**
 * Remembers every attempt of a dispatcher for operators: in a bounded stream in Redis, written some times
 * a second and not once per attempt. A dispatcher that is killed loses the entries of the last moment.
 */
import type { Logger } from "@ropeway/core";
import { Loop } from "@ropeway/core/internal";
import type { AttemptStore } from "../store/attempt-store.ts";

/** One attempt to deliver a batch. */
export interface LoggedAttempt {
  readonly key: string;
  /** The batch's id: the webhook-id. */
  readonly batch: string;
  /** 1 for the first. */
  readonly attempt: number;
  readonly items: number;
  readonly bytes: number;
  readonly result: "delivered" | "partial" | "invalid" | "retry" | "dead";
  /** Why it was not delivered. */
  readonly reason?: string | undefined;
  /** The HTTP status, if there was a response. */
  readonly status?: number | undefined;
  /** The first bytes of the response. */
  readonly response?: string | undefined;
  /** How long the attempt took. */
  readonly ms: number;
  /** When it ended, ms since 1970. */
  readonly at: number;
}

const WRITE_MS = 100;
const CHUNK = 100;
/** More than this between two writes is dropped: a log must not fill the memory. */
const MOST_WAITING = 5_000;

/** Collects attempts and writes them. */
export class AttemptLog implements AsyncDisposable {
  readonly #store: AttemptStore;
  readonly #writer: Loop;
  #waiting: string[] = [];

  constructor(store: AttemptStore, logger: Logger) {
    this.#store = store;
    this.#writer = new Loop({
      tick: async () => {
        await this.#flush();
        return WRITE_MS;
      },
      onError: (error) => logger.debug({ err: error }, "cannot write the attempt log"),
    });
  }

  /** Starts to write. */
  start(): this {
    this.#writer.start();
    return this;
  }

  add(attempt: LoggedAttempt): void {
    if (this.#waiting.length < MOST_WAITING) this.#waiting.push(JSON.stringify(attempt));
  }

  /** Writes the entries that are left. */
  async close(): Promise<void> {
    await this.#writer.close();
    await this.#flush().catch(() => {}); // the log of the last moment, with Redis away
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const entries = this.#waiting.slice(0, CHUNK);
      this.#waiting = this.#waiting.slice(CHUNK);
      await this.#store.append(entries);
    }
  }
}
