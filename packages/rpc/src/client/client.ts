/**
 * The caller's side: calls, notifications, polling, progress, streams, sessions, discovery.
 *
 * A plain call runs at most once: if its worker dies, the caller learns of it by the deadline. Mark it
 * idempotent to have it retried, or serve it with `atLeastOnce` to have it run again.
 */
import { trace } from "@opentelemetry/api";
import { InvalidOptionError, type Redis, RedisClock } from "@ropeway/core";
import { currentTraceparent, inSpan, resolveOptions, tracerOf } from "@ropeway/core/internal";
import { CancelledError, errorFromWire, RpcError, UnavailableError } from "../errors.ts";
import { type CallOptions, type ClientOptions, clientTable } from "../options.ts";
import { discoverServices, type ServiceInfo } from "../registry/registry.ts";
import type { MethodTable, Service } from "../service/service.ts";
import { type ServiceClient, typedClient } from "../service/typed-client.ts";
import { Session } from "../session/session.ts";
import { StreamCall, type StreamOptions } from "../stream/stream-call.ts";
import type { MethodStats } from "../telemetry/histogram.ts";
import { dialectOf } from "../wire/choose-dialect.ts";
import type { Progress } from "../wire/dialect.ts";
import { JsonRpcDialect } from "../wire/jsonrpc-dialect.ts";
import { CallEngine, cancelText } from "./call-engine.ts";
import { Guard } from "./guard.ts";
import { KeyReader } from "./key-reader.ts";
import type { Route } from "./route.ts";

/** One call of a batch. */
export interface BatchItem {
  readonly target: string;
  readonly params?: unknown;
  readonly options?: CallOptions;
}

/** What a client knows about its calls and the queues they went to. */
export interface ClientStats {
  readonly inFlight: number;
  /** By "service.method". */
  readonly methods: Readonly<Record<string, MethodStats>>;
  readonly services: readonly ServiceInfo[];
}

/** How submit() sends. */
export interface SubmitOptions {
  /** Not begun by then, it is refused. @default 120000 */
  readonly timeoutMs?: number;
  /** Let the worker report progress. @default true */
  readonly track?: boolean;
}

/** How poll() waits. */
export interface PollOptions {
  /** How long to wait for the answer. @default 0: not at all */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
}

const SUBMIT_TIMEOUT_MS = 120_000;

/** Makes a client on a connected Redis. */
export async function createClient(redis: Redis, options?: ClientOptions): Promise<RpcClient> {
  const resolved = resolveOptions(clientTable, options);
  const clock = await RedisClock.start(redis);
  try {
    const dialect = dialectOf(redis, resolved, clock);
    return new RpcClient(new CallEngine(redis, { dialect, clock }, resolved));
  } catch (error) {
    await clock.close();
    throw error;
  }
}

/** See the top of the file. */
export class RpcClient implements AsyncDisposable {
  readonly #desk: CallEngine;
  readonly #guard: Guard;
  #closed: Promise<void> | undefined;

  /** @internal Use createClient(). */
  constructor(desk: CallEngine) {
    this.#desk = desk;
    this.#guard = new Guard(desk.options);
  }

  /** Calls a method and waits for its result, at most `timeoutMs`. */
  call(target: string, params: unknown = [], options?: CallOptions): Promise<unknown> {
    let route: Route;
    try {
      route = this.#desk.route(target);
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#call(route, params, options);
  }

  /** Several calls at once; each settles on its own, in the order given. */
  batch(items: readonly BatchItem[]): Promise<PromiseSettledResult<unknown>[]> {
    return Promise.allSettled(
      items.map(({ target, params, options }) => this.call(target, params, options)),
    );
  }

  /** Sends a call that gets no answer; resolves when Redis has it. */
  async notify(target: string, params: unknown = [], options?: SubmitOptions): Promise<void> {
    await this.#submit(target, params, { ...options, notification: true });
  }

  /** Sends a call whose answer will be fetched later, maybe by another process, with poll(). */
  async submit(target: string, params: unknown = [], options?: SubmitOptions): Promise<string> {
    return this.#submit(target, params, { ...options, notification: false });
  }

  /** The answer of a submitted call, or null if it has not come (within `waitMs`). Fetched once. */
  async poll(
    ticket: string,
    options: PollOptions = {},
  ): Promise<{ readonly result: unknown } | null> {
    const { method, id } = this.#desk.dialect.readTicket(ticket);
    const key = this.#desk.dialect.keys.response(method, id);
    const { waitMs = 0, signal } = options;
    const text =
      waitMs > 0
        ? await new KeyReader(this.#desk, key).next(waitMs, signal)
        : (await this.#desk.inbox.look([key]))[0]?.[1][0];
    if (text === undefined) return null;
    const answer = this.#desk.dialect.decodeAnswer(parseAnswer(text));
    if (answer === undefined)
      throw new RpcError("PARSE_ERROR", `not an answer: ${text.slice(0, 80)}`);
    if (answer.error !== undefined) throw errorFromWire(answer.error);
    return { result: answer.result };
  }

  /** The progress of a submitted call, until it is answered, done, or silent for `idleMs`. */
  async *progress(
    ticket: string,
    options: { readonly idleMs?: number; readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<Progress> {
    const { dialect } = this.#desk;
    const { method, id } = dialect.readTicket(ticket);
    const { idleMs = 120_000, signal } = options;
    const answer = dialect.keys.response(method, id);
    const reader = new KeyReader(this.#desk, dialect.keys.progress(method, id));
    for await (const text of reader.all({ idleMs, signal, answer })) {
      yield dialect.decodeProgress(parseAnswer(text));
    }
  }

  /** Gives a submitted call up, wherever it is; `service` as in the target it was submitted to. */
  async cancel(ticket: string, service: string): Promise<void> {
    const { id } = this.#desk.dialect.readTicket(ticket);
    await this.#desk.tellWorkers(service, cancelText(id));
  }

  /** Calls a method that answers with a stream; leaving the loop cancels it. */
  stream(
    target: string,
    params: unknown = [],
    options: StreamOptions = {},
  ): AsyncIterableIterator<unknown> {
    return this.#stream(this.#desk.route(target), options).start(params);
  }

  /** The same, with a stream of input. */
  duplex(
    target: string,
    params: unknown,
    more: { readonly outgoing: AsyncIterable<unknown>; readonly options?: StreamOptions },
  ): AsyncIterableIterator<unknown> {
    const call = this.#stream(this.#desk.route(target), more.options ?? {});
    return call.start(params, more.outgoing);
  }

  /** The service as an object of typed functions. */
  service<M extends MethodTable>(service: Service<M>): ServiceClient<M> {
    const route = (method: string) =>
      this.#desk.routeOf({ service: service.name, method }, `${service.name}.${method}`);
    return typedClient(service, {
      call: (method, params, options) => this.#call(route(method), params, options),
      stream: (method, params, options) => this.#stream(route(method), options).start(params),
      duplex: (method, params, { outgoing, options }) =>
        this.#stream(route(method), options).start(params, outgoing),
    });
  }

  /** Calls that stick to one node of the group; `clientId` names the session. */
  session(group: string, clientId: string): Session {
    const { dialect } = this.#desk;
    if (!(dialect instanceof JsonRpcDialect)) {
      throw new InvalidOptionError("dialect", dialect.name, "jsonrpc for sessions");
    }
    return new Session(this.#desk, dialect.keys, { group, client: clientId });
  }

  /** The services of the namespace with their methods, workers and queue lengths. */
  async discover(): Promise<readonly ServiceInfo[]> {
    const { dialect, redis, directory } = this.#desk;
    if (!(dialect instanceof JsonRpcDialect)) return []; // the kw wire has no registry
    return discoverServices(redis, dialect.keys, directory);
  }

  /** Rates and latencies of this client's calls, and what discover() says. */
  async stats(): Promise<ClientStats> {
    const methods = [...this.#desk.routes].map((route) => [route.name, route.stats.snapshot()]);
    return {
      inFlight: this.#desk.inFlight,
      methods: Object.fromEntries(methods),
      services: await this.discover(),
    };
  }

  /** Rejects what waits, and gives back its connection. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    try {
      await this.#desk.close();
    } finally {
      await this.#desk.clock.close(); // it would keep the process alive
    }
  }

  #call(route: Route, params: unknown, options: CallOptions | undefined): Promise<unknown> {
    const desk = this.#desk;
    const traced = trace.getActiveSpan() !== undefined;
    if (
      options === undefined &&
      !traced &&
      !this.#guard.needed &&
      desk.options.whenDown === "queue"
    ) {
      return desk.send(route, params, desk.options);
    }
    if (!traced) return this.#guardedCall(route, params, options ?? {});
    const span = tracerOf("rpc").startSpan(route.name, { kind: 2 });
    return inSpan(span, () => this.#guardedCall(route, params, options ?? {}));
  }

  async #guardedCall(route: Route, params: unknown, options: CallOptions): Promise<unknown> {
    const { signal, onProgress, idempotent } = options;
    if ((options.whenDown ?? this.#desk.options.whenDown) === "fail")
      await this.#requireWorker(route);
    return this.#guard.run(route, options, (timeoutMs) => {
      if (signal?.aborted) throw new CancelledError(`the call of ${route.name}`, signal.reason);
      const traceparent = currentTraceparent();
      const how = { timeoutMs, onProgress, traceparent, repeatable: idempotent };
      return this.#desk.send(route, params, { ...how, signal });
    });
  }

  async #requireWorker(route: Route): Promise<void> {
    const workers = await this.#desk.directory.workers(route.service, 500);
    if (workers.length === 0) throw new UnavailableError(route.service || route.method);
  }

  #stream(route: Route, options: StreamOptions): StreamCall {
    return new StreamCall(this.#desk, route, options);
  }

  async #submit(
    target: string,
    params: unknown,
    options: SubmitOptions & { readonly notification: boolean },
  ): Promise<string> {
    const desk = this.#desk;
    const route = desk.route(target);
    const { timeoutMs = SUBMIT_TIMEOUT_MS, track = true, notification } = options;
    const id = desk.nextId(false);
    const text = desk.encode({
      id,
      method: route.method,
      params,
      deadline: desk.deadlineIn(timeoutMs),
      notification,
      track: track && !notification,
      traceparent: trace.getActiveSpan() === undefined ? undefined : currentTraceparent(),
    });
    await desk.deliver(route.list, text, desk.requestTtl(timeoutMs));
    return desk.dialect.ticket(route.method, id);
  }
}

function parseAnswer(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // told below, together with JSON that is no object
  }
  throw new RpcError("PARSE_ERROR", `not an answer: ${text.slice(0, 80)}`);
}
