/**
 * A worker's open streams. Each has a sender for the results and, if the caller also sends items, a receiver
 * for the input. Both are controlled by messages in this worker's own list, which the first message
 * of the stream names:
 *
 *   worker -> caller   {"id":..,"last":0,"ctl":"<list>","upto":256}     the stream is open
 *                      {"id":..,"seq":1,"items":[..]} ... {"id":..,"seq":9,"end":true}
 *   caller -> worker   {"id":..,"upto":512,"ack":4}  {"id":..,"again":3}  {"id":..,"cancel":true}
 *                      {"id":..,"upto":512,"ack":4,"beat":true}     requests a sign of life
 *                      {"id":..,"seq":1,"items":[..]} ... {"id":..,"seq":3,"end":true}
 *                      {"id":..,"last":3}     the input so far, with each sign of life
 *                      {"id":..,"last":3}     the input so far, with each sign of life
 *
 * The opening is repeated as a sign of life, and the caller replies with its own. A stream is kept until its
 * reader has acknowledged all of it, or has been silent for too long.
 */

import type { RopewayError } from "@ropeway/core";
import {
  type Exposure,
  errorForWire,
  InvalidParamsError,
  InvalidResultError,
  StreamBrokenError,
  toWire,
} from "../errors.ts";
import type { RunningCall } from "../server/call-context.ts";
import type { ReplyWriter } from "../server/reply-writer.ts";
import type { ServedMethod } from "../server/served-service.ts";
import { readOutput, validate } from "../service/service.ts";
import { type TimerWheel, WheelEntry } from "../timer-wheel.ts";
import { StreamReceiver } from "./stream-receiver.ts";
import { StreamSender } from "./stream-sender.ts";

/** The options of a worker's streams. */
export interface ServerStreamsOptions extends Exposure {
  readonly replies: ReplyWriter;
  readonly wheel: TimerWheel;
  readonly controlList: string;
  readonly idleMs: number;
  readonly maxMessageBytes: number;
}

/** How many items of input a caller may send in advance. */
const INPUT_WINDOW = 256;
const BEATS_PER_IDLE = 3;

/** The open streams of one worker. */
export class ServerStreams {
  readonly #options: ServerStreamsOptions;
  readonly #open = new Map<string, ServedStream>();

  constructor(options: ServerStreamsOptions) {
    this.#options = options;
  }

  /** Opens the stream of a call that requested one. */
  open(running: RunningCall, method: ServedMethod): void {
    const stream = new ServedStream(running, this.#options, () => this.#open.delete(running.id));
    this.#open.set(running.id, stream);
    running.incoming = method.incoming === undefined ? stream.input : checked(stream.input, method);
  }

  /** Sends all items. Resolves with the error that ended it early, if any. */
  async send(
    running: RunningCall,
    items: AsyncIterable<unknown>,
    method: ServedMethod,
  ): Promise<RopewayError | undefined> {
    const stream = this.#open.get(running.id) as ServedStream; // opened with the call
    try {
      for await (const item of items) {
        if (running.aborted !== undefined) throw running.aborted;
        const value = readOutput(method.name, method.output, item);
        const wait = stream.sender.send(value instanceof Promise ? await value : value);
        if (wait !== undefined) await wait;
      }
      stream.sender.end();
      return undefined;
    } catch (thrown) {
      const error = errorForWire(running.aborted ?? thrown, this.#options);
      stream.sender.end(toWire(error));
      return error;
    }
  }

  /** Removes the stream of a call that did not stream. */
  drop(id: string): void {
    this.#open.get(id)?.close();
  }

  control(id: string, message: Readonly<Record<string, unknown>>): void {
    this.#open.get(id)?.control(message);
  }

  close(): void {
    for (const stream of this.#open.values()) stream.close();
  }
}

class ServedStream extends WheelEntry {
  readonly sender: StreamSender;
  readonly input: StreamReceiver;
  readonly #running: RunningCall;
  readonly #options: ServerStreamsOptions;
  readonly #forget: () => void;
  #heardAt = performance.now();

  constructor(running: RunningCall, options: ServerStreamsOptions, forget: () => void) {
    super();
    this.#running = running;
    this.#options = options;
    this.#forget = forget;
    const { request } = running;
    const list = options.replies.listFor(request);
    const post = (text: string) => options.replies.post(list, text);
    this.sender = new StreamSender({
      id: request.id,
      upto: request.window ?? 1,
      maxMessageBytes: options.maxMessageBytes,
      post,
      unwritable: (cause) =>
        new InvalidResultError(running.method, "an item cannot be written as JSON", { cause }),
    });
    this.input = new StreamReceiver({
      window: INPUT_WINDOW,
      control: (members) => post(`{"id":${JSON.stringify(request.id)},${members}}`),
      abandoned: () => {},
      finished: () => {},
    });
    const onAbort = () => {
      this.sender.fail(running.aborted); // a handler that waits for credit
      this.input.fail(running.aborted); // or for input
    };
    running.signal.addEventListener("abort", onAbort, { once: true });
    this.#beat();
  }

  control(message: Readonly<Record<string, unknown>>): void {
    this.#heardAt = performance.now();
    if ("seq" in message || "last" in message) this.input.receive(message);
    else this.sender.control(message);
    if (this.sender.acknowledged) this.close();
    else if (message.beat === true) this.#sendBeat();
  }

  override due(): void {
    const { idleMs } = this.#options;
    if (performance.now() - this.#heardAt < idleMs) {
      this.#beat();
      return;
    }
    const error = new StreamBrokenError(
      this.#running.method,
      `its reader has been silent for ${idleMs} ms`,
    );
    this.#running.abort(error);
    this.input.fail(error);
    this.close();
  }

  close(): void {
    this.#options.wheel.clear(this);
    this.#forget();
  }

  #beat(): void {
    const { wheel, idleMs } = this.#options;
    this.#sendBeat();
    wheel.set(this, idleMs / BEATS_PER_IDLE);
  }

  #sendBeat(): void {
    const { controlList } = this.#options;
    this.sender.beat(`,"ctl":${JSON.stringify(controlList)},${this.input.state()}`);
  }
}

/** Each item of input, checked against the schema. */
async function* checked(input: StreamReceiver, method: ServedMethod): AsyncGenerator<unknown> {
  for await (const item of input) {
    yield await validate(
      method.incoming,
      item,
      (why, issues) =>
        new InvalidParamsError(method.name, `an item of input is not valid: ${why}`, issues),
    );
  }
}

/** Whether a handler returned a stream. */
export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return (
    typeof (value as { [Symbol.asyncIterator]?: unknown } | null | undefined)?.[
      Symbol.asyncIterator
    ] === "function"
  );
}
