/**
 * A worker process: any number of services on one blocking connection.
 *
 *   start:  clock --> connection --> heartbeat (works keys, registry) --> fetchers
 *   close:  no new calls --> running calls end (bounded) --> the rest is aborted --> responses leave -->
 *           keys are removed --> connections are closed
 */
import { hostname } from "node:os";
import { type EventMap, InvalidArgumentError, type Redis, RedisClock } from "@ropeway/core";
import {
  BackgroundRole,
  newToken,
  type Opening,
  requireRedis,
  resolveOptions,
  sleep,
} from "@ropeway/core/internal";
import { RpcClient } from "../client/client.ts";
import { leases } from "../keys.ts";
import { type ServerOptions, serverTable } from "../options.ts";
import { register } from "../registry/registry.ts";
import type { AnyHandlers, Handlers, MethodTable, Service } from "../service/service.ts";
import type { ServiceErrors } from "../service/service-error.ts";
import { CallStore } from "../store/call-store.ts";
import { DurableStore } from "../store/durable-store.ts";
import { hasBlmpop, ListPopper } from "../store/list-popper.ts";
import { ServerStreams } from "../stream/server-streams.ts";
import { Metrics } from "../telemetry/metrics.ts";
import { TimerWheel } from "../timer-wheel.ts";
import type { Dialect, IncomingCall } from "../wire/dialect.ts";
import { dialectOf } from "../wire/dialects.ts";
import type { CallContext, ContextHost } from "./call-context.ts";
import { CallFetcher } from "./call-fetcher.ts";
import { CallIntake } from "./call-intake.ts";
import { CallRunner } from "./call-runner.ts";
import { DurableFetcher } from "./durable-fetcher.ts";
import { Heartbeat } from "./heartbeat.ts";
import { LoadShedder } from "./load-shedder.ts";
import { ReplyWriter } from "./reply-writer.ts";
import { RequestLists, requestSources, sessionSources } from "./request-lists.ts";
import { type Middleware, type ServedService, serveService } from "./served-service.ts";
import { signsOfLife } from "./signs-of-life.ts";
import { Slots } from "./slots.ts";

/** The events of a server. */
export interface ServerEvents extends EventMap {
  /** A handler threw an error that it had not declared. */
  failed: [call: CallContext, error: unknown];
  /** The worker counted as dead for a while; its sessions may be on other nodes. */
  lapsed: [];
  /** A call was refused because of load. */
  shed: [service: string];
  /** A message that cannot be run was kept in the dead list. */
  setAside: [list: string, reason: unknown];
  /** Calls of a worker that died were put back. */
  reclaimed: [worker: string, calls: { readonly back: number; readonly aside: number }];
}

/** Figures of a server. */
export interface ServerStats {
  readonly node: string;
  readonly running: number;
  /** Calls refused unread because their deadline had passed. */
  readonly expired: number;
  /** Calls refused because of load. */
  readonly shed: number;
  /** Messages kept in the dead list. */
  readonly setAside: number;
  /** Messages that were parsed. */
  readonly parsed: number;
}

const DRAIN_CHECK_MS = 25;

/** Serves services: `await new RpcServer(redis).add(users, handlers).start()`. */
export class RpcServer extends BackgroundRole<ServerEvents> {
  /** The name of this node. */
  readonly node: string;
  readonly #worker = newToken();
  readonly #redis: Redis;
  readonly #options: Required<ServerOptions>;
  readonly #services: ServedService[] = [];
  readonly #middleware: Middleware[] = [];
  readonly #slots: Slots;
  readonly #wheel = new TimerWheel();
  readonly #metrics = new Metrics("server");
  readonly #shedder: LoadShedder | undefined;
  readonly #nested: RpcClient;
  #intake: CallIntake | undefined;
  #fetcher: CallFetcher | undefined;
  #durables: readonly DurableFetcher[] = [];

  constructor(redis: Redis, options?: ServerOptions) {
    requireRedis(redis);
    super("the server", redis.logger);
    this.#redis = redis;
    this.#options = resolveOptions(serverTable, options);
    const { node, concurrency, loadShedding, dialect, ns, prefix, maxMessageBytes } = this.#options;
    this.node = node ?? `${hostname().replace(/[:/\s]/g, "-")}-${this.#worker.slice(0, 8)}`;
    this.#slots = new Slots(concurrency);
    if (loadShedding !== undefined) this.#shedder = new LoadShedder(loadShedding);
    this.#nested = new RpcClient(redis, { dialect, ns, prefix, maxMessageBytes });
    this.#nested.on("error", (error) => this.report(error));
  }

  /**
   * Serves a defined service; the handlers are checked by its types. Throws InvalidArgumentError, also if
   * the server is started or serves a service of this name.
   */
  add<M extends MethodTable, E extends ServiceErrors>(
    service: Service<M, E>,
    handlers: Handlers<M>,
  ): this;
  /** Serves a service that is only a name; handlers get `params` as they came. */
  add(service: string, handlers: AnyHandlers): this;
  add(
    service: { readonly name: string; readonly methods: MethodTable } | string,
    handlers: object,
  ): this {
    const served = serveService(service, handlers as AnyHandlers);
    if (this.state !== "idle") {
      throw new InvalidArgumentError("service", served.name, "a service added before start()");
    }
    if (this.#services.some(({ name }) => name === served.name)) {
      throw new InvalidArgumentError("service", served.name, "a service that was not added before");
    }
    this.#services.push(served);
    return this;
  }

  /** Adds a layer around all handlers; the first added is the outermost. Returns the server. */
  use(middleware: Middleware): this {
    this.#middleware.push(middleware);
    return this;
  }

  /** Figures since the start. */
  stats(): ServerStats {
    const { expired = 0, setAside = 0, parsed = 0, shed = 0 } = this.#intake ?? {};
    return { node: this.node, running: this.#slots.taken, expired, shed, setAside, parsed };
  }

  protected override async open({ defer }: Opening): Promise<void> {
    const redis = this.#redis;
    const options = this.#options;
    const clock = await RedisClock.start(redis);
    defer(() => clock.close());
    const dialect = dialectOf(redis, options, clock);
    const store = new CallStore(redis, dialect);
    const controlList = dialect.keys.control(this.#worker);
    const blocking = await redis.blocking("rpc-calls", controlList);
    defer(() => blocking.close());
    defer(() => this.#nested.close());
    defer(() => store.delete(controlList));

    const replies = new ReplyWriter(redis, dialect, options.resultTtlSeconds);
    if (redis.topology !== "cluster") replies.pushes.rideOn(() => blocking.whileFree);
    const streams = this.#streams(replies, controlList);
    const host = this.#host({ clock, dialect, replies });
    const runner = this.#runner({ dialect, replies, streams, host });
    const heartbeat = this.#heartbeat(dialect, { controlList, runner });
    const intake = this.#intakeOf({ dialect, store, runner, clock, heartbeat });
    this.#intake = intake;
    const sources = this.#sources(dialect);
    const fetcher = new CallFetcher({
      redis,
      store,
      blocking,
      popper: new ListPopper(redis, blocking, {
        side: dialect.popSide,
        modern: !options.plainPop && hasBlmpop(redis),
      }),
      lists: new RequestLists(redis, store, sources.popped),
      controlList,
      intake,
      streams,
      replies,
      slots: this.#slots,
      shedder: this.#shedder,
      onError: (error) => this.report(error),
    });
    this.#fetcher = fetcher;
    this.#slots.onFull = () => blocking.interrupt(); // a pop under way asked for more than there is now
    this.#durables = sources.durable.map((source) => {
      const durable = this.#durable(source.list, {
        dialect,
        clock,
        heartbeat,
        onCall: (text) => void intake.accept(source, { texts: [text], at: performance.now() }),
        onExcess: (texts) => intake.refuseAll(source, texts),
      });
      source.durable = durable;
      return durable;
    });
    defer(() => heartbeat.close());
    defer(() => replies.drained());
    defer(() => this.#drain(runner, streams));
    await heartbeat.start();
    if (this.held) fetcher.hold();
    fetcher.start();
    for (const durable of this.#durables) durable.start();
  }

  /** Takes no more calls. Those that run go on. */
  protected override hold(): void {
    this.#fetcher?.hold();
  }

  protected override release(): void {
    this.#fetcher?.release();
    for (const durable of this.#durables) durable.wake();
  }

  /** Lets the running calls end, aborts those that do not in time. Streams get their credit meanwhile. */
  async #drain(runner: CallRunner, streams: ServerStreams): Promise<void> {
    this.#fetcher?.hold();
    await Promise.all(this.#durables.map((durable) => durable.stop()));
    const until = performance.now() + this.#options.closeWithinMs;
    while (this.#slots.taken > 0) {
      const left = until - performance.now();
      if (left <= 0) break;
      await this.#slots.freed(Math.min(DRAIN_CHECK_MS, left), true);
    }
    await this.#fetcher?.close();
    runner.abortAll();
    await sleep(0); // the aborted ones respond now
    streams.close();
  }

  #streams(replies: ReplyWriter, controlList: string): ServerStreams {
    const { streamIdleMs, maxMessageBytes } = this.#options;
    return new ServerStreams({
      replies,
      wheel: this.#wheel,
      controlList,
      idleMs: streamIdleMs,
      maxMessageBytes,
      exposeErrors: this.#exposeErrors,
    });
  }

  get #exposeErrors(): boolean {
    return this.#options.exposeErrors ?? process.env.NODE_ENV === "development";
  }

  #host(parts: { clock: RedisClock; dialect: Dialect; replies: ReplyWriter }): ContextHost {
    const { clock, dialect, replies } = parts;
    return {
      node: this.node,
      wheel: this.#wheel,
      now: () => clock.now(),
      progress: (call, percent, message) => {
        const progress = { time: Math.round(clock.now()), percent, message };
        const text = dialect.encodeProgress(progress, false);
        replies.post(dialect.keys.progress(call.method, call.id), text);
        if (call.replyTo === undefined) return;
        replies.post(replies.listFor(call), `{"id":${JSON.stringify(call.id)},"progress":${text}}`);
      },
      nested: (target, params, options) => this.#nested.call(target, params, options),
    };
  }

  #runner(parts: {
    dialect: Dialect;
    replies: ReplyWriter;
    streams: ServerStreams;
    host: ContextHost;
  }): CallRunner {
    const { dialect, replies, streams, host } = parts;
    return new CallRunner({
      redis: this.#redis,
      replies,
      streams,
      host,
      slots: this.#slots,
      metrics: this.#metrics,
      maxMessageBytes: this.#options.maxMessageBytes,
      middleware: this.#middleware,
      exposeErrors: this.#exposeErrors,
      onFailed: (call, error) => this.#onFailed(call, error),
      endProgress: (call: IncomingCall, failed) => {
        const progress = {
          time: Math.round(host.now()),
          percent: 1,
          message: failed ? "failed" : "done",
        };
        replies.post(
          dialect.keys.progress(call.method, call.id),
          dialect.encodeProgress(progress, true),
        );
      },
    });
  }

  #onFailed(call: CallContext, error: unknown): void {
    const { id, service, method } = call;
    this.#redis.logger.warn({ err: error, id, service, method }, "a handler failed");
    this.emit("failed", call, error);
  }

  #intakeOf(parts: {
    dialect: Dialect;
    store: CallStore;
    runner: CallRunner;
    clock: RedisClock;
    heartbeat: Heartbeat;
  }): CallIntake {
    const { clock, heartbeat, ...rest } = parts;
    return new CallIntake({
      ...rest,
      redis: this.#redis,
      metrics: this.#metrics,
      shedder: this.#shedder,
      now: () => clock.now(),
      clockErrorMs: () => clock.errorMs,
      mayServeSessions: (at) => heartbeat.isAliveSince(at),
      onShed: (service) => this.emit("shed", service),
      onSetAside: (list, reason) => {
        this.#redis.logger.warn(
          { err: reason, list },
          "a message without a usable id was set aside",
        );
        this.emit("setAside", list, reason);
      },
    });
  }

  #heartbeat(dialect: Dialect, parts: { controlList: string; runner: CallRunner }): Heartbeat {
    const { heartbeatMs, atLeastOnce, ns } = this.#options;
    const redis = this.#redis;
    const services = this.#services;
    return new Heartbeat({
      redis,
      node: this.node,
      worker: this.#worker,
      heartbeatMs,
      signs: signsOfLife(dialect, services, {
        node: this.node,
        controlList: parts.controlList,
        options: this.#options,
        running: () => this.#slots.taken,
      }),
      leases: atLeastOnce ? requestSources(dialect, services).map(({ list }) => leases(list)) : [],
      // A durable call goes on: if another worker has it by now, settling it will be refused.
      onLapsed: () => {
        parts.runner.abortSessions();
        this.emit("lapsed");
      },
      onGone: () => register({ redis, dialect, ns, services }),
      onError: (error) => this.report(error),
    });
  }

  #sources(dialect: Dialect) {
    const { group, atLeastOnce } = this.#options;
    const requests = requestSources(dialect, this.#services);
    const sessions =
      group === undefined
        ? []
        : sessionSources(dialect, this.#services, { group, node: this.node });
    return atLeastOnce
      ? { popped: sessions, durable: requests }
      : { popped: [...sessions, ...requests], durable: [] };
  }

  #durable(
    list: string,
    parts: {
      dialect: Dialect;
      clock: RedisClock;
      heartbeat: Heartbeat;
      onCall: (text: string) => void;
      onExcess: (texts: readonly string[]) => void;
    },
  ): DurableFetcher {
    const { dialect, clock, heartbeat, onCall, onExcess } = parts;
    const { maxRuns, resultTtlSeconds, heartbeatMs } = this.#options;
    const redis = this.#redis;
    const worker = this.#worker;
    const leaseMs = heartbeat.ttlMs;
    return new DurableFetcher({
      redis,
      store: new DurableStore({ redis, dialect, list, worker, leaseMs, maxRuns, resultTtlSeconds }),
      list,
      slots: this.#slots,
      reclaimEveryMs: heartbeatMs,
      now: () => clock.now(),
      isHeld: () => this.held,
      onCall,
      maxQueueLength: this.#shedder?.maxQueueLength,
      onExcess,
      onReclaimed: (dead, calls) => {
        redis.logger.warn({ list, worker: dead, ...calls }, "calls of a dead worker were put back");
        this.emit("reclaimed", dead, calls);
      },
      onError: (error) => this.report(error),
    });
  }
}

/** Serves one service: `await serve(redis, users, { addUser: ... }, { ns: "shop" })`. */
export async function serve<M extends MethodTable, E extends ServiceErrors>(
  redis: Redis,
  service: Service<M, E>,
  ...[handlers, options]: [handlers: Handlers<M>, options?: ServerOptions]
): Promise<RpcServer> {
  return new RpcServer(redis, options).add(service, handlers).start();
}
