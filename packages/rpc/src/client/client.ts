/**
 * The caller's side: calls, notifications, polling, progress, streams, sessions, discovery.
 *
 * A plain call runs at most once: if its worker dies, the caller gets DEADLINE_EXCEEDED at the deadline.
 * Mark it idempotent to have it retried, or serve it with `atLeastOnce` to have it run again.
 */
import { type EventMap, InvalidOptionError, type Redis, RedisClock } from "@ropeway/core";
import { BackgroundRole, type Opening, requireRedis, resolveOptions } from "@ropeway/core/internal";
import { UnavailableError } from "../errors.ts";
import {
  type CallOptions,
  type ClientOptions,
  checkOptions,
  clientTable,
  type PollOptions,
  type ProgressOptions,
  pollTable,
  progressTable,
  type StreamOptions,
  type SubmitOptions,
  streamTable,
} from "../options.ts";
import type { WorkerInfo } from "../registry/directory.ts";
import { discoverServices, type ServiceInfo } from "../registry/registry.ts";
import type { MethodTable, Service } from "../service/service.ts";
import type { ServiceErrors } from "../service/service-error.ts";
import { type ServiceClient, typedClient } from "../service/typed-client.ts";
import { Session } from "../session/session.ts";
import { AbortableStream } from "../stream/abortable-stream.ts";
import type { MethodStats } from "../telemetry/histogram.ts";
import { Metrics } from "../telemetry/metrics.ts";
import type { Progress } from "../wire/dialect.ts";
import { dialectOf } from "../wire/dialects.ts";
import type { BreakerState } from "./breaker.ts";
import { CallPath, type Gate } from "./call-path.ts";
import type { BatchItem, Caller, DuplexInput } from "./caller.ts";
import { Exchange } from "./exchange.ts";
import { Guard } from "./guard.ts";
import type { Interceptor } from "./interceptor.ts";
import { RequestPlacement } from "./placement.ts";
import { Router } from "./router.ts";
import { type PollResult, Tickets } from "./tickets.ts";

/** The events of a client. */
export interface ClientEvents extends EventMap {
  /** The circuit breaker of a service changed its state. */
  breaker: [service: string, state: BreakerState];
}

/** Figures about a client's calls and the services it can reach. */
export interface ClientStats {
  /** Calls that wait for their response. */
  readonly inFlight: number;
  /** The calls of this client, by "service.method". */
  readonly methods: Readonly<Record<string, MethodStats>>;
  readonly services: readonly ServiceInfo[];
  /** Connections of callers and workers; undefined if the user has no permission for CLIENT LIST. */
  readonly connections: { readonly callers: number; readonly workers: number } | undefined;
}

/** Creates a client on a connected Redis and starts it. */
export function createClient(redis: Redis, options?: ClientOptions): Promise<RpcClient> {
  return new RpcClient(redis, options).start();
}

interface Parts {
  readonly exchange: Exchange;
  readonly path: CallPath;
  readonly tickets: Tickets;
}

/** Calls services over Redis. One client per process serves any number of concurrent calls. */
export class RpcClient extends BackgroundRole<ClientEvents> implements Caller {
  readonly #redis: Redis;
  readonly #options: Required<ClientOptions>;
  readonly #guard: Guard;
  readonly #interceptors: Interceptor[] = [];
  readonly #gate: Gate = { refusal: undefined };
  #parts: Parts | undefined;

  constructor(redis: Redis, options?: ClientOptions) {
    requireRedis(redis);
    super("the client", redis.logger);
    this.#redis = redis;
    this.#options = resolveOptions(clientTable, options);
    this.#guard = new Guard(this.#options, (service, state) =>
      this.emit("breaker", service, state),
    );
  }

  /** Adds a layer around all calls; the first added is the outermost. Returns the client. */
  use(interceptor: Interceptor): this {
    this.#interceptors.push(interceptor);
    return this;
  }

  call(target: string, params: unknown = [], options?: CallOptions): Promise<unknown> {
    const path = this.#parts?.path;
    if (path === undefined) return this.start().then(() => this.call(target, params, options));
    try {
      return path.call(path.router.route(target), params, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  batch(items: readonly BatchItem[]): Promise<PromiseSettledResult<unknown>[]> {
    return Promise.allSettled(
      items.map(({ target, params, options }) => this.call(target, params, options)),
    );
  }

  async notify(target: string, params: unknown = [], options?: SubmitOptions): Promise<void> {
    const { path } = await this.#opened();
    await path.submit(path.router.route(target), params, { options, notification: true });
  }

  async submit(target: string, params: unknown = [], options?: SubmitOptions): Promise<string> {
    const { path } = await this.#opened();
    return path.submit(path.router.route(target), params, { options, notification: false });
  }

  stream(
    target: string,
    params: unknown = [],
    options?: StreamOptions,
  ): AsyncIterableIterator<unknown> {
    const path = this.#parts?.path;
    return path === undefined
      ? this.#streamLater(target, params, { options })
      : path.stream(path.router.route(target), params, { options });
  }

  duplex(target: string, params: unknown, input: DuplexInput): AsyncIterableIterator<unknown> {
    const path = this.#parts?.path;
    return path === undefined
      ? this.#streamLater(target, params, input)
      : path.stream(path.router.route(target), params, input);
  }

  service<M extends MethodTable, E extends ServiceErrors>(
    service: Service<M, E>,
  ): ServiceClient<M> {
    return typedClient(
      service as unknown as Service<M, ServiceErrors>,
      this.#parts?.path ?? (async () => (await this.#opened()).path),
    );
  }

  /** The result of a submitted call, or null if there is none within `waitMs`. It stays readable. */
  async poll(ticket: string, options?: PollOptions): Promise<PollResult | null> {
    const { waitMs = 0, signal } = resolveOptions(pollTable, options);
    return (await this.#opened()).tickets.poll(ticket, waitMs, signal);
  }

  /** The progress of a submitted call, until it has ended or was silent for `idleMs`. */
  async *progress(ticket: string, options?: ProgressOptions): AsyncGenerator<Progress> {
    const { idleMs = 0, signal } = resolveOptions(progressTable, options);
    yield* (await this.#opened()).tickets.progress(ticket, idleMs, signal);
  }

  /** Cancels a submitted call: takes it out of its queue, or cancels it in the worker that runs it. */
  async cancel(ticket: string): Promise<void> {
    await (await this.#opened()).tickets.cancel(ticket);
  }

  /**
   * Calls that stick to one node of the group; `clientId` names the session. Throws InvalidOptionError in
   * a wire without sessions, and UnavailableError if the client is not started.
   */
  session(group: string, clientId: string): Session {
    if (this.#parts === undefined) throw new UnavailableError(group, "the client is not started");
    const { exchange, path } = this.#parts;
    const { dialect } = exchange;
    if (dialect.sessions === undefined) {
      throw new InvalidOptionError("dialect", dialect.name, "one with sessions: jsonrpc");
    }
    return new Session({
      exchange,
      keys: dialect.sessions,
      name: { group, client: clientId },
      router: path.router,
      guard: this.#guard,
      interceptors: this.#interceptors,
      gate: this.#gate,
    });
  }

  /** The services with their methods, workers and queue lengths. */
  async discover(): Promise<readonly ServiceInfo[]> {
    const { exchange } = await this.#opened();
    return discoverServices(exchange.redis, exchange.dialect, exchange.directory);
  }

  /** The live workers of a service. In the kw wire, "" means all services of the prefix. */
  async workers(service: string): Promise<readonly WorkerInfo[]> {
    return (await this.#opened()).exchange.directory.allWorkers(service);
  }

  /** Rates and latencies of this client's calls, and the services that discover() finds. */
  async stats(): Promise<ClientStats> {
    const { exchange, path } = await this.#opened();
    const methods = [...path.router.routes].map((route) => [route.name, route.stats.snapshot()]);
    const [services, connections] = await Promise.all([
      this.discover(),
      exchange.directory.connections(),
    ]);
    return {
      inFlight: exchange.inFlight,
      methods: Object.fromEntries(methods),
      services,
      connections,
    };
  }

  protected override async open({ defer }: Opening): Promise<void> {
    const redis = this.#redis;
    const options = this.#options;
    const clock = await RedisClock.start(redis);
    defer(() => clock.close());
    const dialect = dialectOf(redis, options, clock);
    const onError = (error: unknown) => this.report(error);
    const exchange = new Exchange({ redis, dialect, clock, options, onError });
    defer(() => exchange.close());
    const { replyList } = exchange;
    const { timeoutMs } = options;
    const router = new Router({ dialect, metrics: new Metrics("client"), replyList, timeoutMs });
    const path = new CallPath({
      exchange,
      router,
      guard: this.#guard,
      interceptors: this.#interceptors,
      placement: new RequestPlacement(exchange),
      gate: this.#gate,
    });
    this.#parts = { exchange, path, tickets: new Tickets(exchange, router, this.closing) };
    if (this.held) this.hold();
  }

  /** Refuses new calls with UnavailableError. Calls under way continue. */
  protected override hold(): void {
    this.#gate.refusal = () => new UnavailableError("", "the client is paused");
  }

  protected override release(): void {
    this.#gate.refusal = undefined;
  }

  /**
   * The parts of the client; starts the client if it is not started. Rejects with ClosedError after
   * close().
   */
  async #opened(): Promise<Parts> {
    if (this.#parts === undefined || this.closing.aborted) await this.start();
    return this.#parts as Parts;
  }

  #streamLater(
    target: string,
    params: unknown,
    more: {
      readonly options?: StreamOptions | undefined;
      readonly outgoing?: AsyncIterable<unknown>;
    },
  ): AsyncIterableIterator<unknown> {
    if (more.options !== undefined) checkOptions(streamTable, more.options);
    const opened = () => this.#opened();
    return new AbortableStream(async function* (signal) {
      const { path } = await opened();
      const options = { ...more.options, signal };
      yield* path.stream(path.router.route(target), params, { ...more, options });
    }, more.options?.signal);
  }
}
