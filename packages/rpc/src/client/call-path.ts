/**
 * The path of every call, typed or untyped, with or without a session:
 *
 *   options checked --> interceptors --> span --> whenDown --> breaker, bulkhead, retries --> sender
 *
 * A unary call without options goes directly to the sender if none of these is in use.
 */
import { type Span, trace } from "@opentelemetry/api";
import {
  currentTraceparent,
  inSpan,
  type OptionTable,
  resolveOptions,
  tracerOf,
  whenAborted,
} from "@ropeway/core/internal";
import { CancelledError, UnavailableError } from "../errors.ts";
import {
  type CallOptions,
  callTable,
  checkOptions,
  type StreamOptions,
  type SubmitOptions,
  streamTable,
  submitTable,
} from "../options.ts";
import { AbortableStream } from "../stream/abortable-stream.ts";
import { guardedStream } from "../stream/guarded-stream.ts";
import { StreamCall } from "../stream/stream-call.ts";
import { checkSize, paramsJson } from "../wire/params.ts";
import { CallSender } from "./call-sender.ts";
import type { Exchange } from "./exchange.ts";
import type { Guard } from "./guard.ts";
import { type CallRequest, type Interceptor, intercept } from "./interceptor.ts";
import type { ResultReader } from "./pending-call.ts";
import type { Outgoing, Placement } from "./placement.ts";
import type { Route } from "./route.ts";
import type { Router } from "./router.ts";
import { newTicket } from "./ticket.ts";

/** Whether calls may be made now. */
export interface Gate {
  /** The reason for a refusal; undefined if calls may be made. */
  refusal: (() => Error) | undefined;
}

/** The route to a method whose results are read. */
export interface TypedRoute {
  readonly route: Route;
  readonly reader: ResultReader;
}

/** The options of a call path. */
export interface CallPathOptions {
  readonly exchange: Exchange;
  readonly router: Router;
  readonly guard: Guard;
  readonly interceptors: readonly Interceptor[];
  readonly placement: Placement;
  readonly gate: Gate;
}

const TABLES: Record<CallRequest["kind"], OptionTable<StreamOptions & SubmitOptions>> = {
  call: callTable,
  stream: streamTable,
  duplex: streamTable,
  submit: submitTable,
  notify: submitTable,
} as Record<CallRequest["kind"], never>;

/** The path of the calls of a client, or of one of its sessions. */
export class CallPath {
  readonly router: Router;
  readonly #exchange: Exchange;
  readonly #guard: Guard;
  readonly #interceptors: readonly Interceptor[];
  readonly #placement: Placement;
  readonly #gate: Gate;
  readonly #sender: CallSender;
  /** Whether even a call without options needs more than the sender. */
  readonly #special: boolean;

  constructor(options: CallPathOptions) {
    const { exchange, guard, placement } = options;
    this.router = options.router;
    this.#exchange = exchange;
    this.#guard = guard;
    this.#interceptors = options.interceptors;
    this.#placement = placement;
    this.#gate = options.gate;
    this.#sender = new CallSender(exchange, placement);
    this.#special =
      guard.needed || exchange.options.whenDown !== "queue" || placement.mark !== undefined;
  }

  /** Calls a method and waits for its result. */
  call(route: Route, params: unknown, options?: CallOptions): Promise<unknown> {
    const { refusal } = this.#gate;
    if (refusal !== undefined) return Promise.reject(refusal());
    if (this.#isPlain(options)) return this.#sender.sendPlain(route, params);
    return this.#call(route, params, options ?? {});
  }

  /** The same for a typed method, whose reader gets the result last. */
  callTyped(
    { route, reader }: TypedRoute,
    params: unknown,
    options?: CallOptions,
  ): Promise<unknown> {
    const { refusal } = this.#gate;
    if (refusal !== undefined) return Promise.reject(refusal());
    if (this.#isPlain(options)) return this.#sender.sendPlain(route, params, reader);
    return this.#call(route, params, options ?? {}).then(reader.value, (error) => {
      throw reader.reason(error);
    });
  }

  /** Whether a call needs only the sender. */
  #isPlain(options: CallOptions | undefined): boolean {
    if (options !== undefined || this.#special || this.#interceptors.length > 0) return false;
    return trace.getActiveSpan() === undefined;
  }

  async #call(route: Route, params: unknown, options: CallOptions): Promise<unknown> {
    checkOptions(callTable, options);
    return this.#intercepted(route, { kind: "call", params, options }, (request) => {
      const { route: to, ...rest } = request;
      const span = spanOf(to);
      const send = () => this.#guarded(to, rest.params, rest.options);
      return span === undefined ? send() : inSpan(span, send);
    });
  }

  async #guarded(route: Route, params: unknown, options: CallOptions): Promise<unknown> {
    const { timeoutMs, whenDown } = this.#exchange.options;
    const { signal, onProgress, metadata, idempotent = false } = options;
    const how = { whenDown: options.whenDown ?? whenDown, onProgress, metadata, signal };
    await this.#requireWorker(route, how.whenDown);
    const call = { timeoutMs: options.timeoutMs ?? timeoutMs, idempotent, signal };
    const traceparent = activeTraceparent();
    return this.#guard.run(route, call, (left) =>
      this.#sender.send(route, params, {
        ...how,
        timeoutMs: left,
        traceparent,
        repeatable: idempotent,
      }),
    );
  }

  /** Calls a method that responds with a stream, with or without a stream of input. */
  stream(
    route: Route,
    params: unknown,
    more: {
      readonly options?: StreamOptions | undefined;
      readonly outgoing?: AsyncIterable<unknown>;
    },
  ): AsyncIterableIterator<unknown> {
    const { outgoing } = more;
    const options = more.options ?? {};
    const { refusal } = this.#gate;
    if (refusal !== undefined) throw refusal();
    checkOptions(streamTable, options);
    const kind = outgoing === undefined ? "stream" : "duplex";
    const plain = !this.#special && options.whenDown !== "fail" && options.idempotent !== true;
    if (plain && this.#interceptors.length === 0) {
      return this.#openStream(route, params, options).start(outgoing);
    }
    const open = (how: StreamOptions) =>
      this.#intercepted(route, { kind, params, options: how }, async (request) =>
        this.#guardedStream(request, outgoing),
      ) as Promise<AsyncIterable<unknown>>;
    return new AbortableStream(async function* (signal) {
      yield* await open({ ...options, signal });
    }, options.signal);
  }

  async #guardedStream(
    request: CallRequest & { readonly route: Route },
    outgoing: AsyncIterable<unknown> | undefined,
  ): Promise<AsyncIterable<unknown>> {
    const { route, params, options } = request;
    const { whenDown, timeoutMs } = this.#exchange.options;
    await this.#requireWorker(route, options.whenDown ?? whenDown);
    const idempotent = options.idempotent === true && outgoing === undefined;
    return guardedStream(this.#guard, route, {
      call: { timeoutMs: options.timeoutMs ?? timeoutMs, idempotent, signal: options.signal },
      open: (left) =>
        this.#openStream(route, params, { ...options, timeoutMs: left }).start(outgoing),
    });
  }

  #openStream(route: Route, params: unknown, options: StreamOptions): StreamCall {
    const whenDown = options.whenDown ?? this.#exchange.options.whenDown;
    return new StreamCall(this.#exchange, {
      route,
      params,
      options,
      whenDown,
      placement: this.#placement,
      span: spanOf(route),
    });
  }

  /** Sends a call without waiting for its response. Returns its ticket. */
  async submit(
    route: Route,
    params: unknown,
    more: { readonly options?: SubmitOptions | undefined; readonly notification: boolean },
  ): Promise<string> {
    const { notification } = more;
    const options = more.options ?? {};
    const { refusal } = this.#gate;
    if (refusal !== undefined) throw refusal();
    checkOptions(submitTable, options);
    const kind = notification ? "notify" : "submit";
    return (await this.#intercepted(route, { kind, params, options }, (request) => {
      const span = spanOf(request.route);
      const send = () => this.#submit(request.route, request.params, { ...request, notification });
      return span === undefined ? send() : inSpan(span, send);
    })) as string;
  }

  async #submit(
    route: Route,
    params: unknown,
    more: { readonly options: SubmitOptions; readonly notification: boolean },
  ): Promise<string> {
    const { timeoutMs, track, whenDown, metadata, idempotent, signal } = resolveOptions(
      submitTable,
      more.options,
    );
    const exchange = this.#exchange;
    const down = whenDown ?? exchange.options.whenDown;
    await this.#requireWorker(route, down);
    const ticket = newTicket(route);
    const text = exchange.dialect.encodeCall({
      id: ticket.id,
      method: route.method,
      params: paramsJson(route.method, params),
      deadline: exchange.deadlineIn(timeoutMs as number),
      timeoutMs,
      notification: more.notification,
      track: track && !more.notification,
      trackEnd: track && !more.notification,
      traceparent: activeTraceparent(),
      metadata,
      session: this.#placement.mark,
    });
    checkSize(text, exchange.options.maxMessageBytes, "the call");
    const call = { timeoutMs: timeoutMs as number, idempotent: idempotent === true, signal };
    await this.#guard.run(route, call, (left) => {
      const message = {
        id: ticket.id,
        route,
        timeoutMs: left,
        until: performance.now() + left,
        text,
        list: route.list,
        wanted: true,
        whenDown: down,
      };
      return this.#place(message, signal);
    });
    return ticket.text;
  }

  /** Places a message that has no receiver. Until Redis has it, the signal cancels it. */
  async #place(message: Outgoing, signal: AbortSignal | undefined): Promise<void> {
    if (signal === undefined) return this.#placement.place(message);
    const cancelled = () => new CancelledError(`the call of ${message.route.name}`, signal.reason);
    if (signal.aborted) throw cancelled();
    return new Promise((resolve, reject) => {
      const stopListening = whenAborted(signal, () => {
        message.wanted = false; // removed again if it is on its way
        reject(cancelled());
      });
      this.#placement.place(message).then(resolve, reject).finally(stopListening);
    });
  }

  /** Throws UnavailableError if the caller does not want to wait and the service has no live worker. */
  async #requireWorker(route: Route, whenDown: "queue" | "fail"): Promise<void> {
    if (whenDown !== "fail" || this.#placement.mark !== undefined) return; // sessions check this themselves
    const { service, method } = route;
    if (await this.#exchange.directory.isServed(service)) return;
    throw new UnavailableError(service || method);
  }

  #intercepted(
    route: Route,
    call: Pick<CallRequest, "kind" | "params" | "options">,
    send: (request: CallRequest & { readonly route: Route }) => Promise<unknown>,
  ): Promise<unknown> {
    const { service, method } = route;
    const request: CallRequest = { ...call, service, method };
    if (this.#interceptors.length === 0) return send({ ...request, route });
    return intercept(this.#interceptors, request, async (last) => {
      checkOptions(TABLES[call.kind], last.options); // a layer may have changed them
      const same = last.service === service && last.method === method;
      return send({ ...last, route: same ? route : this.router.routeOf(last) });
    });
  }
}

/** A client span, if the caller is being traced. */
function spanOf(route: Route): Span | undefined {
  if (trace.getActiveSpan() === undefined) return undefined;
  return tracerOf("rpc").startSpan(route.name, { kind: 2 });
}

function activeTraceparent(): string | undefined {
  return trace.getActiveSpan() === undefined ? undefined : currentTraceparent();
}
