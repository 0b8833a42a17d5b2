/**
 * Runs calls, and writes one response for each:
 *
 *   validate --> middleware --> handler --> value      one response
 *                                      `--> iterable   a stream, or all of it as one array
 *
 * Handlers that return at once cost no promise and take no slot.
 */
import { context, trace } from "@opentelemetry/api";
import type { Redis, RopewayError } from "@ropeway/core";
import { contextOf, inSpan, tracerOf } from "@ropeway/core/internal";
import {
  type Exposure,
  errorForWire,
  HandlerFailedError,
  InvalidResultError,
  ServerClosingError,
  SessionLostError,
  toWire,
} from "../errors.ts";
import { readInput, readOutput } from "../service/service.ts";
import { gatherItems } from "../stream/gathered-items.ts";
import { isAsyncIterable, type ServerStreams } from "../stream/server-streams.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { IncomingCall } from "../wire/dialect.ts";
import { checkSize } from "../wire/params.ts";
import { type CallContext, type ContextHost, RunningCall } from "./call-context.ts";
import type { ReplyWriter } from "./reply-writer.ts";
import type { Middleware, ServedMethod, Source } from "./served-service.ts";
import type { SessionCall } from "./session-call.ts";
import type { Slots } from "./slots.ts";

/** The options of a runner. */
export interface CallRunnerOptions extends Exposure {
  readonly redis: Redis;
  readonly replies: ReplyWriter;
  readonly streams: ServerStreams;
  readonly host: ContextHost;
  readonly slots: Slots;
  readonly metrics: Metrics;
  readonly maxMessageBytes: number;
  readonly middleware: readonly Middleware[];
  /** Called when a handler threw an error that it had not declared. */
  onFailed(call: CallContext, error: unknown): void;
  /** Ends the progress of a call. */
  endProgress(call: IncomingCall, failed: boolean): void;
}

/** A call that may start. */
export interface StartedCall {
  readonly source: Source;
  readonly text: string;
  readonly call: IncomingCall;
  readonly method: ServedMethod;
  readonly session: SessionCall | undefined;
}

interface Run extends StartedCall {
  readonly running: RunningCall;
  readonly began: number;
}

/** The fields of a call that a refusal needs. */
export type Answerable = Pick<IncomingCall, "id" | "method" | "replyTo" | "notification">;

/** Runs the calls of one worker. */
export class CallRunner {
  readonly #options: CallRunnerOptions;
  /** Calls that wait for a promise. Calls whose handler returns at once are never added. */
  readonly #running = new Set<Run>();
  /**
   * When the latest call ended or started to wait; by performance.now(). The next call of a batch starts then,
   * so the clock is read only once per call.
   */
  now = 0;

  constructor(options: CallRunnerOptions) {
    this.#options = options;
  }

  start(started: StartedCall): void {
    const { source, text, call, method, session } = started;
    const where = { service: source.service.name, session };
    const running = new RunningCall(this.#options.host, call, where);
    if (streams(call)) this.#options.streams.open(running, method);
    const began = this.now;
    const run: Run = { source, text, call, method, session, running, began }; // a spread costs 10 us
    if (call.traceparent === undefined) {
      this.#run(run);
      return;
    }
    void this.#runTraced(run, call.traceparent);
    this.now = performance.now();
  }

  /** Cancels the running calls with this id. Returns false if there is none. */
  cancel(id: string): boolean {
    let found = false;
    // Not by id, because other programs may use one id for several calls, and each of them takes a slot.
    for (const { call, running } of this.#running) {
      if (call.id !== id) continue;
      running.abort();
      found = true;
    }
    return found;
  }

  /** Aborts the running calls of sessions, which this node may have lost. */
  abortSessions(): void {
    for (const { running, source } of this.#running) {
      if (source.group !== undefined) running.abort(new SessionLostError(source.group, true));
    }
  }

  /** Aborts all running calls, because the server closes. */
  abortAll(): void {
    for (const { running, source } of this.#running) {
      running.abort(new ServerClosingError(source.service.name));
    }
  }

  /** Responds with an error to a call that did not start. */
  refuse(source: Source, text: string, refused: { call: Answerable; error: RopewayError }): void {
    const { call, error } = refused;
    const { replies } = this.#options;
    this.#settle(source, text, {
      list: replies.listFor(call),
      text: call.notification ? "" : replies.error(call, toWire(error)),
    });
  }

  async #runTraced(run: Run, traceparent: string): Promise<void> {
    this.#hold(run);
    const name = `${run.source.service.name}.${run.method.name}`;
    const parent = contextOf(traceparent);
    const span = tracerOf("rpc").startSpan(name, { kind: 1 }, parent);
    try {
      await context.with(trace.setSpan(parent, span), () =>
        inSpan(span, async () => {
          const value = await this.#invoke(run);
          const { name, output } = run.method;
          const checked = isAsyncIterable(value) ? value : readOutput(name, output, value);
          await this.#complete(run, checked);
        }),
      );
    } catch (error) {
      this.#fail(run, error);
    }
  }

  /** Without a promise unless it needs one, because most handlers return at once. */
  #run(run: Run): void {
    try {
      const value = this.#options.middleware.length === 0 ? handle(run) : this.#invoke(run);
      if (!isThenable(value)) {
        this.#completeNow(run, value);
        return;
      }
      this.#hold(run);
      this.now = performance.now();
      value.then(
        (settled) => this.#completeNow(run, settled),
        (error) => this.#fail(run, error),
      );
    } catch (error) {
      this.#fail(run, error);
    }
  }

  async #invoke(run: Run): Promise<unknown> {
    const { middleware } = this.#options;
    const step = async (at: number): Promise<unknown> => {
      const layer = middleware[at];
      return layer === undefined ? handle(run) : layer(run.running, () => step(at + 1));
    };
    return step(0);
  }

  #completeNow(run: Run, value: unknown): void {
    try {
      const { name, output } = run.method;
      const streamed = isAsyncIterable(value);
      const checked = streamed ? value : readOutput(name, output, value);
      if (streamed || checked instanceof Promise) {
        this.#hold(run);
        this.#complete(run, checked).catch((error) => this.#fail(run, error));
      } else {
        this.#succeed(run, checked);
      }
    } catch (error) {
      this.#fail(run, error);
    }
  }

  /** Completes a call with a stream, or with a result whose validation is asynchronous. */
  async #complete(run: Run, value: unknown): Promise<void> {
    const { method, call, running } = run;
    if (!isAsyncIterable(value)) {
      this.#succeed(run, await value);
      return;
    }
    if (!streams(call)) {
      const { maxMessageBytes } = this.#options;
      this.#succeed(run, await gatherItems(value, { method, running, maxMessageBytes }));
      return;
    }
    const error = await this.#options.streams.send(running, value, method);
    if (error instanceof HandlerFailedError) this.#options.onFailed(running, error.cause ?? error);
    this.#finish(run, error !== undefined);
    await run.source.durable?.settle(run.text, { list: run.source.list, text: "" });
  }

  #succeed(run: Run, value: unknown): void {
    const { method, call, source, text } = run;
    let json: string;
    try {
      json = JSON.stringify(value) ?? "null";
    } catch (error) {
      throw new InvalidResultError(method.name, "it cannot be written as JSON", { cause: error });
    }
    const { replies, maxMessageBytes } = this.#options;
    checkSize(json, maxMessageBytes, "the result");
    this.#finish(run, false);
    if (streams(call)) this.#options.streams.drop(call.id);
    this.#settle(source, text, {
      list: replies.listFor(call),
      text: call.notification ? "" : replies.result(call, json),
    });
  }

  #fail(run: Run, thrown: unknown): void {
    const { call, source, text, running } = run;
    // The error that a handler throws because of an abort is replaced by the reason of the abort.
    const error = errorForWire(running.aborted ?? thrown, this.#options);
    if (error instanceof HandlerFailedError) this.#options.onFailed(running, thrown);
    this.#finish(run, true);
    if (streams(call)) this.#options.streams.drop(call.id);
    // Without a response, it stays in flight, and another worker runs it again.
    if (source.durable !== undefined && running.aborted instanceof ServerClosingError) {
      source.durable.abandon(text);
      return;
    }
    this.refuse(source, text, { call, error });
  }

  #hold(run: Run): void {
    if (this.#running.has(run)) return;
    this.#running.add(run);
    this.#options.slots.take();
  }

  #finish(run: Run, failed: boolean): void {
    const at = performance.now();
    this.now = at;
    const ms = at - run.began;
    run.running.finish();
    if (this.#running.size > 0 && this.#running.delete(run)) this.#options.slots.release();
    run.method.stats.record(ms, failed, at);
    const { ok, failed: bad } = run.method.attributes;
    this.#options.metrics.duration(ms, failed ? bad : ok);
    if (run.call.trackEnd) this.#options.endProgress(run.call, failed);
  }

  #settle(source: Source, call: string, response: { list: string; text: string }): void {
    const { replies, redis } = this.#options;
    if (source.durable === undefined) {
      if (response.text !== "") replies.post(response.list, response.text);
      return;
    }
    if (response.text !== "") replies.remember(response.list, [response.text]);
    source.durable.settle(call, response).then(
      (ours) => {
        if (!ours) redis.logger.warn({ list: source.list }, "another worker took a call over");
      },
      (error) => redis.logger.error({ err: error, list: source.list }, "cannot settle a call"),
    );
  }
}

/** Validates the input and calls the handler. Without a promise if the schema is synchronous. */
function handle(run: Run): unknown {
  const input = readInput(run.method, run.call.params);
  return input instanceof Promise
    ? input.then((checked) => begin(run, checked))
    : begin(run, input);
}

function begin({ method, running, session }: Run, input: unknown): unknown {
  session?.begin();
  return method.handler(input, running);
}

/** Whether the caller requested, and can read, a stream. */
function streams(call: IncomingCall): boolean {
  return call.window !== undefined && call.replyTo !== undefined;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}
