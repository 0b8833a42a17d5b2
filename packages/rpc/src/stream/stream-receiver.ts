/**
 * The receiving half of a stream: an async iterable over the items, in order, each once.
 *
 *   message seq = expected   its items are queued
 *           seq < expected   already seen: ignored
 *           seq > expected   a message was missed: `again` from expected; this one will be sent again too
 *
 * The reader grants new items when it has taken half of the window. So a slow reader slows the sender,
 * and at most a window of items waits here.
 */
import { type Deferred, deferred } from "@ropeway/core/internal";
import { errorFromWire } from "../errors.ts";

/** The options of a receiver. */
export interface StreamReceiverOptions {
  readonly window: number;
  /** Sends a control message: members without braces, as in `"upto":12`. */
  control(members: string): void;
  /** Called when the reader stopped before the end. */
  abandoned(): void;
  /** Called when the reader has seen the end, with the error if there was one. */
  finished(error?: unknown): void;
}

/** A message of the sender. */
export interface StreamMessage {
  readonly seq?: unknown;
  readonly items?: unknown;
  readonly end?: unknown;
  readonly error?: unknown;
  readonly last?: unknown;
}

/** The items of a stream in order, each once. */
export class StreamReceiver<T = unknown> implements AsyncIterableIterator<T> {
  readonly #options: StreamReceiverOptions;
  #queue: T[] = [];
  #at = 0;
  #expected = 1;
  #askedFor = 0;
  #taken = 0;
  #granted: number;
  #ended = false;
  #failure: unknown;
  #waiting: Deferred<void> | undefined;

  constructor(options: StreamReceiverOptions) {
    this.#options = options;
    this.#granted = options.window;
  }

  /** Whether no more items will come. */
  get ended(): boolean {
    return this.#ended || this.#failure !== undefined;
  }

  receive(message: StreamMessage): void {
    const { seq, last } = message;
    if (typeof last === "number" && last >= this.#expected) this.askAgain();
    if (typeof seq !== "number" || seq < this.#expected || this.ended) return;
    if (seq > this.#expected) {
      if (this.#askedFor < this.#expected) this.askAgain(); // once per gap; beats repeat it
      return;
    }
    this.#expected += 1;
    if (Array.isArray(message.items)) for (const item of message.items) this.#queue.push(item as T);
    if (message.error !== undefined) this.#failure = errorFromWire(message.error);
    else if (message.end === true) this.#ended = true;
    if (this.ended) this.#options.control(this.state());
    this.#wake();
  }

  /** Requests everything from the first missing message on. */
  askAgain(): void {
    this.#askedFor = this.#expected;
    this.#options.control(`${this.state()},"again":${this.#expected}`);
  }

  /** The state of this side that the sender needs. */
  state(): string {
    return `"upto":${this.#granted},"ack":${this.#expected - 1}`;
  }

  /** Ends the stream with an error, after the items that have already arrived. */
  fail(error: unknown): void {
    if (this.ended) return;
    this.#failure = error;
    this.#wake();
  }

  async next(): Promise<IteratorResult<T>> {
    for (;;) {
      if (this.#at < this.#queue.length) return { value: this.#take(), done: false };
      if (this.#failure !== undefined) {
        this.#options.finished(this.#failure);
        throw this.#failure;
      }
      if (this.#ended) {
        this.#options.finished();
        return { value: undefined, done: true };
      }
      this.#waiting ??= deferred();
      await this.#waiting.promise;
    }
  }

  async return(): Promise<IteratorResult<T>> {
    if (!this.ended) this.#options.abandoned();
    this.#ended = true;
    this.#queue = [];
    this.#at = 0;
    this.#wake(); // also ends a waiting next()
    this.#options.finished();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #take(): T {
    const item = this.#queue[this.#at] as T;
    this.#at += 1;
    this.#taken += 1;
    if (this.#at === this.#queue.length) {
      this.#queue = [];
      this.#at = 0;
    }
    const { window } = this.#options;
    if (!this.ended && this.#granted - this.#taken <= window / 2) {
      this.#granted = this.#taken + window;
      this.#options.control(this.state());
    }
    return item;
  }

  #wake(): void {
    this.#waiting?.resolve();
    this.#waiting = undefined;
  }
}
