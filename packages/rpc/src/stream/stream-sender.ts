/**
 * The sending half of a stream, the same on both sides: a worker's results, a caller's input.
 *
 *   send(item) --> batch --(end of this event)--> {"id":..,"seq":n,"items":[..]}  n = 1, 2, 3, ...
 *        |                                        {"id":..,"seq":n,"end":true}
 *        +-- more than `upto` items: wait         {"id":..,"last":n}   regularly: what was sent so far
 *
 * The receiver grants items by their total number (`upto`), not by increments, and requests missing
 * messages by number (`again`). Any control message can be lost or duplicated; the next one corrects it.
 * Messages that have not been acknowledged (`ack`) are kept for sending again, at most a window of them.
 */
import { type Deferred, deferred } from "@ropeway/core/internal";
import type { WireError } from "../errors.ts";
import { boundError, checkSize } from "../wire/params.ts";

/** The options of a sender. */
export interface StreamSenderOptions {
  readonly id: string;
  /** How many items may be sent at first. */
  readonly upto: number;
  readonly maxMessageBytes: number;
  post(text: string): void;
  /** The error for an item that cannot be written as JSON. */
  unwritable(cause: unknown): Error;
}

/** A control message of the receiver. */
export interface StreamControl {
  readonly upto?: unknown;
  readonly ack?: unknown;
  readonly again?: unknown;
}

const BATCH_CHARS = 64 * 1024;

/** Sends the items of a stream, as fast as the receiver accepts them. */
export class StreamSender {
  readonly #options: StreamSenderOptions;
  readonly #head: string;
  readonly #unacknowledged: { readonly seq: number; readonly text: string }[] = [];
  #upto: number;
  #sent = 0;
  #seq = 0;
  #batch: string[] = [];
  #batchChars = 0;
  #scheduled = false;
  #ended = false;
  #failure: unknown;
  #credit: Deferred<void> | undefined;

  constructor(options: StreamSenderOptions) {
    this.#options = options;
    this.#head = `{"id":${JSON.stringify(options.id)}`;
    this.#upto = options.upto;
  }

  /** Whether the receiver has everything, including the end. */
  get acknowledged(): boolean {
    return this.#ended && this.#unacknowledged.length === 0;
  }

  /** Resolves as soon as at least one item may be sent. */
  async granted(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#sent < this.#upto) return;
    this.#credit ??= deferred();
    await this.#credit.promise;
  }

  /** Takes one item. If it returns a promise, wait for it before the next one. */
  send(item: unknown): Promise<void> | undefined {
    if (this.#failure !== undefined) throw this.#failure;
    const text = this.#write(item);
    checkSize(text, this.#options.maxMessageBytes, "an item");
    this.#batch.push(text);
    this.#batchChars += text.length;
    this.#sent += 1;
    if (this.#batchChars > BATCH_CHARS) this.flush();
    else this.#schedule();
    if (this.#sent < this.#upto) return undefined;
    this.#credit ??= deferred();
    return this.#credit.promise;
  }

  /** Ends the stream, after all items or with an error. */
  end(error?: WireError): void {
    if (this.#ended) return;
    this.flush();
    this.#ended = true;
    if (error === undefined) {
      this.#post('"end":true');
      return;
    }
    this.#post(`"error":${JSON.stringify(boundError(error, this.#options.maxMessageBytes))}`);
  }

  /** Makes a waiting send() throw, because the receiver is gone. */
  fail(error: unknown): void {
    this.#failure ??= error;
    this.#credit?.reject(error);
    this.#credit = undefined;
  }

  /** Tells the receiver the number of the last message, so that it can notice missing ones. */
  beat(more: string = ""): void {
    this.#options.post(`${this.#head},"last":${this.#seq}${more}}`);
  }

  control(message: StreamControl): void {
    const { upto, ack, again } = message;
    if (typeof ack === "number") {
      const missing = this.#unacknowledged.findIndex(({ seq }) => !(seq <= ack));
      this.#unacknowledged.splice(0, missing < 0 ? this.#unacknowledged.length : missing);
    }
    if (typeof again === "number") {
      for (const { seq, text } of this.#unacknowledged) if (seq >= again) this.#options.post(text);
    }
    if (typeof upto === "number" && upto > this.#upto) this.#upto = upto;
    if (this.#sent >= this.#upto) return;
    this.#credit?.resolve();
    this.#credit = undefined;
  }

  flush(): void {
    this.#scheduled = false;
    if (this.#batch.length === 0) return;
    const items = this.#batch.join(",");
    this.#batch = [];
    this.#batchChars = 0;
    this.#post(`"items":[${items}]`);
  }

  #write(item: unknown): string {
    try {
      return JSON.stringify(item) ?? "null";
    } catch (error) {
      throw this.#options.unwritable(error);
    }
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    process.nextTick(() => this.flush());
  }

  #post(body: string): void {
    this.#seq += 1;
    const text = `${this.#head},"seq":${this.#seq},${body}}`;
    this.#unacknowledged.push({ seq: this.#seq, text });
    this.#options.post(text);
  }
}
