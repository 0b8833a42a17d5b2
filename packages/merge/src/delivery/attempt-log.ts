/**
 * Records every attempt of a dispatcher for operators: in a bounded stream in Redis, and in totals over
 * all dispatchers, so that every portal shows the same metrics. Both are written a few times per second
 * and not once per attempt. A dispatcher that is killed loses its last unwritten entries.
 */
import type { Logger } from "@ropeway/core";
import { Loop } from "@ropeway/core/internal";
import type { AttemptStore } from "../store/attempt-store.ts";

/** One attempt to deliver a batch. */
export interface LoggedAttempt {
  readonly key: string;
  /** The batch's id: the webhook-id. */
  readonly batch: string;
  /** The number of the attempt; the first is 1. */
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

/** Further values for the totals. */
export interface AttemptNumbers {
  /** How long the batch had been due. */
  readonly lateMs: number;
  /** The short reason of a failure. */
  readonly failure?: string | undefined;
}

/** The upper bounds of the lateness histogram. */
export const LATENESS_BOUNDS_MS: readonly number[] = [
  5, 10, 25, 50, 100, 250, 1_000, 5_000, 60_000,
];

const WRITE_MS = 100;
const CHUNK = 100;
/** The maximum number of entries between two writes. Others are dropped, so that the log cannot fill the memory. */
const MOST_WAITING = 5_000;

/** Collects attempts and writes them. */
export class AttemptLog implements AsyncDisposable {
  readonly #store: AttemptStore;
  readonly #writer: Loop;
  #waiting: string[] = [];
  #totals: Record<string, number> = {};

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

  /** Starts writing. */
  start(): this {
    this.#writer.start();
    return this;
  }

  add(attempt: LoggedAttempt, { lateMs, failure }: AttemptNumbers): void {
    const { result, items, bytes } = attempt;
    this.#count(`deliveries:${result}`, 1);
    this.#count(`items:${result}`, items);
    this.#count(`bytes:${result}`, bytes);
    if (failure !== undefined) this.#count(`failures:${failure}`, 1);
    if (attempt.attempt > 1) this.#count("retries", 1);
    else {
      const late = Number.isFinite(lateMs) ? Math.max(0, Math.round(lateMs)) : 0;
      const bound = LATENESS_BOUNDS_MS.find((each) => late <= each) ?? "inf";
      this.#count(`late:${bound}`, 1);
      this.#count("latecount", 1);
      this.#count("latesum", late);
    }
    if (this.#waiting.length < MOST_WAITING) this.#waiting.push(JSON.stringify(attempt));
  }

  /** Writes the entries that are left. */
  async close(): Promise<void> {
    await this.#writer.close();
    await this.#flush().catch(() => {}); // Redis may be unreachable; then the last entries are lost
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const entries = this.#waiting.slice(0, CHUNK);
      const totals = this.#totals;
      this.#waiting = this.#waiting.slice(CHUNK);
      this.#totals = {};
      await this.#store.append(entries, totals);
    }
  }

  #count(name: string, by: number): void {
    this.#totals[name] = (this.#totals[name] ?? 0) + by;
  }
}
