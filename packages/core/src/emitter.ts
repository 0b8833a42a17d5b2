/**
 * Typed events whose listeners cannot harm the emitter. With Node's EventEmitter, an error of a listener
 * is thrown into the code that emitted, and an `error` event without a listener ends the process. A
 * worker must survive both. Here a listener that throws, or returns a promise that rejects, is reported
 * as an `error` event; an `error` event that has no listener, or whose listener throws, is logged.
 */
import { EventEmitter } from "node:events";
import type { Logger } from "./logger.ts";

/** Event names and the arguments of their listeners. Every emitter has `error`. */
export interface EventMap {
  error: [error: unknown];
}

/** An emitter of the events of `M`. Its methods have the names of Node's EventEmitter. */
export class Emitter<M extends EventMap & Record<keyof M, unknown[]>> {
  readonly #listeners = new EventEmitter();
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Calls the listener each time the event happens. */
  on<K extends keyof M & string>(event: K, listener: (...args: M[K]) => unknown): this {
    this.#listeners.on(event, listener as Listener);
    return this;
  }

  /** Calls the listener the next time the event happens. */
  once<K extends keyof M & string>(event: K, listener: (...args: M[K]) => unknown): this {
    this.#listeners.once(event, listener as Listener);
    return this;
  }

  /** Removes a listener. */
  off<K extends keyof M & string>(event: K, listener: (...args: M[K]) => unknown): this {
    this.#listeners.off(event, listener as Listener);
    return this;
  }

  /** The number of listeners of an event. */
  listenerCount(event: keyof M & string): number {
    return this.#listeners.listenerCount(event);
  }

  /** Calls every listener in the order in which they were added. Never throws. */
  protected emit<K extends keyof M & string>(event: K, ...args: M[K]): void {
    const listeners = this.#listeners.rawListeners(event) as Listener[];
    if (listeners.length === 0 && event === "error") {
      this.#logger.warn({ err: args[0] }, "an error event has no listener");
    }
    for (const listener of listeners) this.#call(event, listener, args);
  }

  /** Emits `error`. */
  protected report(error: unknown): void {
    this.emit("error", ...([error] as M["error"]));
  }

  #call(event: string, listener: Listener, args: unknown[]): void {
    try {
      const returned = listener.apply(this, args);
      if (returned instanceof Promise) returned.catch((error) => this.#failed(event, error));
    } catch (error) {
      this.#failed(event, error);
    }
  }

  #failed(event: string, error: unknown): void {
    this.#logger.warn({ err: error, event }, "an event listener threw");
    if (event !== "error") this.report(error); // else it could repeat forever
  }
}

type Listener = (...args: unknown[]) => unknown;
