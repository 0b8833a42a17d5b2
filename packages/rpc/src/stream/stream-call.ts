/**
 * A caller's end of a stream: the results as an async iterable and, for duplex calls, a sender for what
 * the caller has to say. See stream-desk.ts for the messages.
 *
 * Never a hang: the worker's signs of life come every third of `streamIdleMs`; when they stop, the
 * stream ends with STREAM_BROKEN. Before the first of them the call's own timeout holds.
 */
import { type CallEngine, cancelText } from "../client/call-engine.ts";
import type { Receiver } from "../client/pending-call.ts";
import type { Route } from "../client/route.ts";
import {
  CancelledError,
  DeadlineExceededError,
  errorForWire,
  errorFromWire,
  StreamBrokenError,
} from "../errors.ts";
import type { CallOptions } from "../options.ts";
import { WheelEntry } from "../timer-wheel.ts";
import { StreamReceiver } from "./stream-receiver.ts";
import { StreamSender } from "./stream-sender.ts";

/** What can be said about one stream. */
export interface StreamOptions extends Pick<CallOptions, "timeoutMs" | "signal" | "onProgress"> {
  /** How many items may be under way or unread. @default the client's */
  readonly window?: number | undefined;
}

const BEATS_PER_IDLE = 3;

/** See the top of the file. */
export class StreamCall extends WheelEntry implements Receiver {
  readonly id: string;
  number = 0;
  readonly route: Route;
  readonly results: StreamReceiver;
  readonly #desk: CallEngine;
  readonly #timeoutMs: number;
  readonly #signal: AbortSignal | undefined;
  readonly #window: number;
  readonly #onProgress: StreamOptions["onProgress"];
  readonly #began = performance.now();
  #control: string | undefined;
  #input: StreamSender | undefined;
  #heardAt: number | undefined;
  #over = false;

  constructor(desk: CallEngine, route: Route, options: StreamOptions) {
    super();
    this.#desk = desk;
    this.id = desk.nextId(true);
    this.route = route;
    this.#timeoutMs = options.timeoutMs ?? desk.options.timeoutMs;
    this.#signal = options.signal;
    this.#onProgress = options.onProgress;
    this.#window = options.window ?? desk.options.window;
    this.results = new StreamReceiver({
      window: this.#window,
      control: (members) => this.#post(members),
      abandoned: () => this.#cancel(),
      finished: () => this.#finish(false),
    });
  }

  /** Sends the call. With `input`, its items follow as the worker takes them. */
  start(params: unknown, input?: AsyncIterable<unknown>): StreamReceiver {
    const desk = this.#desk;
    if (this.#signal?.aborted) {
      this.fail(new CancelledError(`the stream of ${this.route.name}`, this.#signal.reason));
      return this.results;
    }
    const text = desk.encode({
      id: this.id,
      method: this.route.method,
      params,
      deadline: desk.deadlineIn(this.#timeoutMs),
      replyTo: desk.replyList,
      window: this.#window,
      track: this.#onProgress !== undefined,
    });
    desk.register(this);
    desk.inbox.start();
    desk.wheel.set(this, this.#timeoutMs);
    this.#signal?.addEventListener("abort", this.#onAbort, { once: true });
    if (input !== undefined) void this.#sendInput(input);
    desk
      .deliver(this.route.list, text, desk.requestTtl(this.#timeoutMs))
      .catch((error) => this.fail(error));
    return this.results;
  }

  receive(message: Readonly<Record<string, unknown>>, at: number): void {
    this.#heardAt = at;
    if (typeof message.ctl === "string") {
      const first = this.#control === undefined;
      this.#control = message.ctl;
      if (first) this.#desk.wheel.set(this, this.#beatMs);
    }
    if (message.progress !== undefined) {
      this.#onProgress?.(this.#desk.progress(message.progress as Record<string, unknown>));
      return;
    }
    if ("result" in message) {
      this.results.receive({ seq: 1, items: [message.result], end: true }); // it did not stream
      return;
    }
    if ("error" in message && !("seq" in message)) this.fail(errorFromWire(message.error));
    else this.results.receive(message);
    this.#input?.control(message);
  }

  onGap(): void {
    if (this.#control !== undefined) this.results.askAgain();
  }

  fail(error: unknown): void {
    this.results.fail(error);
    this.#finish(true);
  }

  override due(): void {
    const { streamIdleMs } = this.#desk.options;
    if (this.#heardAt === undefined) {
      this.fail(new DeadlineExceededError(`the stream of ${this.route.name}`, this.#timeoutMs));
    } else if (performance.now() - this.#heardAt > streamIdleMs) {
      const why = `its worker is silent for ${streamIdleMs} ms`;
      this.fail(new StreamBrokenError(this.route.name, why));
    } else {
      this.#post(this.results.state());
      this.#desk.wheel.set(this, this.#beatMs);
    }
  }

  get #beatMs(): number {
    return this.#desk.options.streamIdleMs / BEATS_PER_IDLE;
  }

  readonly #onAbort = (): void => {
    this.#cancel();
    this.fail(new CancelledError(`the stream of ${this.route.name}`, this.#signal?.reason));
  };

  async #sendInput(input: AsyncIterable<unknown>): Promise<void> {
    const sender = new StreamSender({
      id: this.id,
      upto: 0,
      maxMessageBytes: this.#desk.options.maxMessageBytes,
      post: (text) => {
        if (this.#control !== undefined) this.#desk.post(this.#control, text);
      },
    });
    this.#input = sender;
    try {
      await sender.granted(); // nothing can be sent before the worker has said where to
      for await (const item of input) {
        const wait = sender.send(item);
        if (wait !== undefined) await wait;
      }
      sender.end();
    } catch (error) {
      if (this.#over) return; // the stream ended first, and with it the need for input
      sender.end(errorForWire(error).toWire());
    }
  }

  #post(members: string): void {
    if (this.#control === undefined) return;
    this.#desk.post(this.#control, `{"id":"${this.id}",${members}}`);
  }

  #cancel(): void {
    if (this.#control !== undefined) {
      this.#desk.post(this.#control, cancelText(this.id));
      return;
    }
    this.#desk
      .tellWorkers(this.route.service, cancelText(this.id))
      .catch((error) => this.#desk.redis.logger.debug({ err: error }, "cannot cancel a stream"));
  }

  #finish(failed: boolean): void {
    if (this.#over) return;
    this.#over = true;
    this.route.record(performance.now() - this.#began, failed);
    this.#desk.forget(this);
    this.#desk.wheel.clear(this);
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#input?.fail(new StreamBrokenError(this.route.name, "its results have ended"));
  }
}
