/** Waits for the elements of one documented key (response or process) through the client's inbox. */
import { type Deferred, deferred } from "@ropeway/core/internal";
import { CancelledError } from "../errors.ts";
import type { CallEngine } from "./call-engine.ts";

/** When to stop reading. */
export interface ReadBounds {
  readonly idleMs: number;
  readonly signal?: AbortSignal | undefined;
  /** The key whose existence means that nothing more will come. */
  readonly answer: string;
}

/** How often a silent list is suspected to be complete. */
const SUSPECT_MS = 500;

/** One reader per key at a time. */
export class KeyReader {
  readonly #desk: CallEngine;
  readonly #key: string;
  readonly #texts: string[] = [];
  #failure: unknown;
  #arrival: Deferred<void> | undefined;

  constructor(desk: CallEngine, key: string) {
    this.#desk = desk;
    this.#key = key;
  }

  /** The next element, or undefined if none came within `waitMs`. */
  async next(waitMs: number, signal?: AbortSignal): Promise<string | undefined> {
    this.#watch();
    try {
      await this.#wait(waitMs, signal);
      return this.#texts.shift();
    } finally {
      this.#desk.inbox.release(this.#key);
    }
  }

  /** Every element until the bounds are reached. */
  async *all(bounds: ReadBounds): AsyncGenerator<string> {
    const { idleMs, signal, answer } = bounds;
    const { redis } = this.#desk;
    this.#watch();
    try {
      for (let silentSince = performance.now(); ; ) {
        await this.#wait(SUSPECT_MS, signal);
        if (this.#texts.length > 0) silentSince = performance.now();
        yield* this.#texts.splice(0);
        const silent = performance.now() - silentSince;
        if (silent > idleMs) return;
        if (silent < SUSPECT_MS) continue;
        const exists = await redis.send(["EXISTS", answer], { key: answer, repeatable: true });
        if (exists === 1 && this.#texts.length === 0) return;
      }
    } finally {
      this.#desk.inbox.release(this.#key);
    }
  }

  #watch(): void {
    this.#desk.inbox.watch(this.#key, {
      receive: (text) => {
        this.#texts.push(text);
        this.#arrival?.resolve();
      },
      refuse: (error) => {
        this.#failure = error;
        this.#arrival?.resolve();
      },
    });
  }

  async #wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) throw new CancelledError("waiting", signal.reason);
    if (this.#texts.length === 0 && this.#failure === undefined) {
      const arrival = deferred<void>();
      this.#arrival = arrival;
      const timer = setTimeout(() => arrival.resolve(), ms);
      const onAbort = () => arrival.reject(new CancelledError("waiting", signal?.reason));
      signal?.addEventListener("abort", onAbort, { once: true });
      try {
        await arrival.promise;
      } finally {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        this.#arrival = undefined;
      }
    }
    if (this.#failure !== undefined) throw this.#failure;
  }
}
