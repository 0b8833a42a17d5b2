/**
 * A caller's end of a stream: the results as an async iterable and, for duplex calls, a sender for the
 * caller's own items. See server-streams.ts for the messages.
 *
 * A stream never hangs: each side requests a sign of life every third of its own `streamIdleMs`. When the
 * signs stop, the stream ends with STREAM_BROKEN. Before the first one, the call's own timeout applies. A worker
 * that supports only the documented keys responds with one result, which becomes the only item.
 */
import { context, type Span, SpanStatusCode, trace } from "@opentelemetry/api";
import { ClosedError, ConnectionLostError } from "@ropeway/core";
import { currentTraceparent, reasonOf, whenAborted } from "@ropeway/core/internal";
import { cancelText } from "../client/control.ts";
import type { Exchange } from "../client/exchange.ts";
import type { Receiver } from "../client/pending-call.ts";
import type { Outgoing, Placement } from "../client/placement.ts";
import type { Route } from "../client/route.ts";
import {
  CancelledError,
  DeadlineExceededError,
  errorForWire,
  errorFromWire,
  InvalidParamsError,
  StreamBrokenError,
  toWire,
} from "../errors.ts";
import type { StreamOptions } from "../options.ts";
import { WheelEntry } from "../timer-wheel.ts";
import { checkSize, paramsJson } from "../wire/params.ts";
import { StreamReceiver } from "./stream-receiver.ts";
import { StreamSender } from "./stream-sender.ts";

/** The options of a stream call. */
export interface StreamCallOptions {
  readonly route: Route;
  readonly params: unknown;
  readonly options: StreamOptions;
  readonly whenDown: "queue" | "fail";
  readonly placement: Placement;
  readonly span: Span | undefined;
}

const BEATS_PER_IDLE = 3;
/** The input of a call that sends none: a handler that reads it finds its end. */
const NO_INPUT: AsyncIterable<unknown> = {
  [Symbol.asyncIterator]: () => ({ next: async () => ({ value: undefined, done: true }) }),
};

/** One call that responds with a stream. */
export class StreamCall extends WheelEntry implements Receiver {
  readonly id: string;
  readonly sharesDeadline = false;
  number = 0;
  nextPollAt = 0;
  readonly route: Route;
  readonly sentAt: number = performance.now();
  readonly #exchange: Exchange;
  readonly #given: StreamCallOptions;
  readonly #results: StreamReceiver;
  readonly #timeoutMs: number;
  readonly #window: number;
  readonly #shared: boolean;
  readonly #ends: (() => void)[] = [];
  #message: Outgoing | undefined;
  #control: string | undefined;
  #input: StreamSender | undefined;
  #heardAt: number | undefined;
  #over = false;

  constructor(exchange: Exchange, given: StreamCallOptions) {
    super();
    const { route, options } = given;
    this.#exchange = exchange;
    this.#given = given;
    this.route = route;
    this.#shared = exchange.usesReplyList(route.service);
    this.id = exchange.nextId(this.#shared);
    this.#timeoutMs = options.timeoutMs ?? exchange.options.timeoutMs;
    this.#window = options.window ?? exchange.options.window;
    this.#results = new StreamReceiver({
      window: this.#window,
      control: (members) => this.#post(members),
      abandoned: () => this.#cancel(),
      finished: (error) => this.#finish(error),
    });
  }

  /** Until a worker has responded, a worker with only the documented keys may have taken it. */
  get polled(): boolean {
    return this.#shared && this.#heardAt === undefined;
  }

  /** Sends the call. The items of `input`, or the end of an input without any, follow as the worker accepts them. */
  start(input: AsyncIterable<unknown> = NO_INPUT): StreamReceiver {
    const { signal } = this.#given.options;
    const exchange = this.#exchange;
    if (signal?.aborted) {
      this.fail(new CancelledError(`the stream of ${this.route.name}`, signal.reason));
      return this.#results;
    }
    const message = this.#write();
    this.#message = message;
    exchange.register(this);
    exchange.expectReply();
    if (!this.#shared) this.#ends.push(exchange.watch(this, false));
    exchange.wheel.set(this, this.#timeoutMs);
    if (signal !== undefined) this.#ends.push(whenAborted(signal, () => this.#onAbort(signal)));
    void this.#sendInput(input);
    this.#given.placement.place(message).catch((error) => {
      if (!(error instanceof ConnectionLostError)) this.fail(error);
    });
    return this.#results;
  }

  receive(message: Readonly<Record<string, unknown>>, at: number): void {
    this.#heardAt = at;
    if (typeof message.ctl === "string") {
      const known = this.#control;
      if (known !== undefined && known !== message.ctl) this.#begunAnew(message.ctl);
      this.#control = message.ctl;
      if (known === undefined) this.#opened();
      else if (!this.#over) this.#post(this.#results.state()); // replies to a sign of life with another
    }
    if (message.progress !== undefined) {
      const report = message.progress as Record<string, unknown>;
      if (report.end !== true) this.#exchange.progress(report, this.#given.options.onProgress);
      return;
    }
    const streamed = "seq" in message || "last" in message || "upto" in message;
    if (!streamed) this.#receiveOnly(message);
    else this.#results.receive(message);
    this.#input?.control(message);
  }

  onGap(): boolean {
    if (this.#control !== undefined) this.#results.askAgain();
    return false;
  }

  onUnsure(): void {}

  fail(error: unknown): void {
    if (error instanceof ClosedError) this.#cancel(); // the client closes, so the worker can stop
    this.#results.fail(error);
    this.#finish(error);
  }

  override due(): void {
    const { streamIdleMs } = this.#exchange.options;
    if (this.#heardAt === undefined) {
      this.fail(new DeadlineExceededError(`the stream of ${this.route.name}`, this.#timeoutMs));
      this.#exchange.withdrawals.expired(this.route, this.id);
    } else if (performance.now() - this.#heardAt > streamIdleMs) {
      const why = `its worker has been silent for ${streamIdleMs} ms`;
      this.fail(new StreamBrokenError(this.route.name, why));
    } else {
      this.#post(`${this.#results.state()},"beat":true`);
      this.#input?.beat(); // the worker asks again for input that a broken connection lost
      this.#exchange.wheel.set(this, this.#beatMs);
    }
  }

  get #beatMs(): number {
    return this.#exchange.options.streamIdleMs / BEATS_PER_IDLE;
  }

  #write(): Outgoing {
    const { dialect, replyList, options: defaults } = this.#exchange;
    const { params, options, placement, whenDown } = this.#given;
    const { route, id } = this;
    const timeoutMs = this.#timeoutMs;
    const text = dialect.encodeCall({
      id,
      method: route.method,
      params: paramsJson(route.method, params),
      deadline: this.#exchange.deadlineIn(timeoutMs),
      timeoutMs,
      replyTo: replyList,
      window: this.#window,
      track: options.onProgress !== undefined,
      traceparent: this.#traceparent(),
      metadata: options.metadata,
      session: placement.mark,
    });
    checkSize(text, defaults.maxMessageBytes, "the call");
    const until = performance.now() + timeoutMs;
    return { id, route, timeoutMs, until, text, list: route.list, wanted: true, whenDown };
  }

  #traceparent(): string | undefined {
    const { span } = this.#given;
    if (span === undefined) return undefined;
    return context.with(trace.setSpan(context.active(), span), currentTraceparent);
  }

  /** The worker has the call, so the session no longer needs to move it. */
  #opened(): void {
    this.#exchange.wheel.set(this, this.#beatMs);
    if (this.#message !== undefined) this.#given.placement.release(this.#message);
  }

  /**
   * Another worker runs the call from the start, because the first one of an at-least-once service counted
   * as dead. Its messages have the same numbers and other items: continuing would repeat some and lose others.
   */
  #begunAnew(control: string): void {
    this.#cancel();
    this.#exchange.post(control, cancelText(this.id));
    this.fail(new StreamBrokenError(this.route.name, "another worker began it anew"));
  }

  /** Handles a response of a worker, or of a method, that does not stream. */
  #receiveOnly(message: Readonly<Record<string, unknown>>): void {
    const response = this.#exchange.decode(message);
    if (response === undefined) return;
    if (response.error !== undefined) this.fail(errorFromWire(response.error));
    else this.#results.receive({ seq: 1, items: [response.result], end: true });
  }

  #onAbort(signal: AbortSignal): void {
    this.#cancel();
    this.fail(new CancelledError(`the stream of ${this.route.name}`, signal.reason));
  }

  async #sendInput(input: AsyncIterable<unknown>): Promise<void> {
    const sender = new StreamSender({
      id: this.id,
      upto: 0,
      maxMessageBytes: this.#exchange.options.maxMessageBytes,
      post: (text) => {
        if (this.#control !== undefined) this.#exchange.post(this.#control, text);
      },
      unwritable: (cause) =>
        new InvalidParamsError(
          this.route.name,
          `an item of input cannot be written as JSON: ${reasonOf(cause)}`,
        ),
    });
    this.#input = sender;
    try {
      await sender.granted(); // nothing can be sent before the worker has named its list
      if (this.#over) return; // a stream so short that its end came with its beginning
      for await (const item of input) {
        const wait = sender.send(item);
        if (wait !== undefined) await wait;
      }
      sender.end();
    } catch (error) {
      if (this.#over) return; // the stream ended first, so no more input is needed
      sender.end(toWire(errorForWire(error, { exposeErrors: true })));
    }
  }

  #post(members: string): void {
    if (this.#control === undefined) return;
    this.#exchange.post(this.#control, `{"id":${JSON.stringify(this.id)},${members}}`);
  }

  #cancel(): void {
    if (this.#control !== undefined) {
      this.#exchange.post(this.#control, cancelText(this.id));
      return;
    }
    if (this.#message === undefined) return;
    this.#message.wanted = false;
    this.#exchange.withdrawals
      .cancel(this.#message)
      .catch((error) =>
        this.#exchange.redis.logger.debug({ err: error }, "cannot cancel a stream"),
      );
  }

  #finish(error: unknown): void {
    if (this.#over) return;
    this.#over = true;
    const failed = error !== undefined;
    const at = performance.now();
    this.route.record(at - this.sentAt, failed, at);
    this.#exchange.forget(this);
    this.#exchange.wheel.clear(this);
    for (const end of this.#ends) end();
    if (this.#message !== undefined) {
      this.#message.wanted = false;
      this.#given.placement.release(this.#message);
    }
    this.#input?.fail(new StreamBrokenError(this.route.name, "its results have ended"));
    const { span } = this.#given;
    if (failed) span?.setStatus({ code: SpanStatusCode.ERROR, message: reasonOf(error) });
    span?.end();
  }
}
