/**
 * The parts of a started server, and their connections:
 *
 *   CallFetcher ----.                                .--> ReplyWriter
 *                   +--> CallIntake --> CallRunner --+
 *   DurableFetcher -'         ^             ^        '--> ServerStreams
 *                             '- Heartbeat -'
 *
 *   start:  clock --> connection --> heartbeat (works keys, registry) --> fetchers
 *   close:  no new calls --> running calls end (bounded) --> the rest is aborted --> responses are sent -->
 *           keys are removed --> connections are closed
 */
import { type Redis, RedisClock } from "@ropeway/core";
import { type BlockingConnection, type Opening, sleep } from "@ropeway/core/internal";
import type { RpcClient } from "../client/client.ts";
import { leases } from "../keys.ts";
import type { ServerOptions } from "../options.ts";
import { register } from "../registry/registry.ts";
import { CallStore } from "../store/call-store.ts";
import { DurableStore } from "../store/durable-store.ts";
import { hasBlmpop, ListPopper } from "../store/list-popper.ts";
import { ServerStreams } from "../stream/server-streams.ts";
import { Metrics } from "../telemetry/metrics.ts";
import { TimerWheel } from "../timer-wheel.ts";
import type { Dialect } from "../wire/dialect.ts";
import { dialectOf } from "../wire/dialects.ts";
import type { ContextHost } from "./call-context.ts";
import { CallFetcher } from "./call-fetcher.ts";
import { CallIntake } from "./call-intake.ts";
import { CallRunner } from "./call-runner.ts";
import { DurableFetcher } from "./durable-fetcher.ts";
import { Heartbeat } from "./heartbeat.ts";
import type { LoadShedder } from "./load-shedder.ts";
import { ReplyWriter } from "./reply-writer.ts";
import { RequestLists, requestSources, sessionSources } from "./request-lists.ts";
import type { Middleware, ServedService, Source } from "./served-service.ts";
import type { ServerEvents } from "./server-events.ts";
import { signsOfLife } from "./signs-of-life.ts";
import type { Slots } from "./slots.ts";

/** The server that a pipeline works for. */
export interface PipelineHost {
  readonly redis: Redis;
  readonly options: Required<ServerOptions>;
  /** The name of the node. */
  readonly node: string;
  /** A random id, unique to this worker. */
  readonly worker: string;
  readonly services: readonly ServedService[];
  readonly middleware: readonly Middleware[];
  readonly slots: Slots;
  readonly shedder: LoadShedder | undefined;
  /** Makes the calls of handlers. */
  readonly nested: RpcClient;
  /** Whether the server is paused. */
  isHeld(): boolean;
  emit<K extends keyof ServerEvents & string>(event: K, ...args: ServerEvents[K]): void;
  report(error: unknown): void;
}

/** The parts that are opened first and that all others use. */
interface Base {
  readonly clock: RedisClock;
  readonly dialect: Dialect;
  readonly store: CallStore;
  readonly blocking: BlockingConnection;
  readonly controlList: string;
}

const DRAIN_CHECK_MS = 25;

/** The parts of one started server. */
export class CallPipeline {
  readonly intake: CallIntake;
  readonly #host: PipelineHost;
  readonly #base: Base;
  readonly #wheel = new TimerWheel();
  readonly #metrics = new Metrics("server");
  readonly #replies: ReplyWriter;
  readonly #streams: ServerStreams;
  readonly #runner: CallRunner;
  readonly #heartbeat: Heartbeat;
  readonly #fetcher: CallFetcher;
  readonly #durables: readonly DurableFetcher[];

  /** Opens the connections, wires the parts and starts them. `defer` registers how to undo each step. */
  static async open(host: PipelineHost, defer: Opening["defer"]): Promise<CallPipeline> {
    const { redis, options, worker } = host;
    const clock = await RedisClock.start(redis);
    defer(() => clock.close());
    const dialect = dialectOf(redis, options, clock);
    const store = new CallStore(redis, dialect);
    const controlList = dialect.keys.control(worker);
    const blocking = await redis.blocking("rpc-calls", controlList);
    defer(() => blocking.close());
    const pipeline = new CallPipeline(host, { clock, dialect, store, blocking, controlList });
    // In parallel: while Redis is unreachable each of them waits for it, and close() must still end soon.
    defer(() =>
      Promise.all([
        pipeline.#heartbeat.close(),
        store.delete(controlList),
        host.nested.close(),
      ]).then(() => {}),
    );
    defer(() => pipeline.#replies.drained());
    defer(() => pipeline.#drain());
    await pipeline.#start();
    return pipeline;
  }

  private constructor(host: PipelineHost, base: Base) {
    const { redis, options, slots } = host;
    const { dialect, blocking } = base;
    this.#host = host;
    this.#base = base;
    const { resultTtlSeconds: ttlSeconds, maxMessageBytes } = options;
    this.#replies = new ReplyWriter(redis, dialect, { ttlSeconds, maxMessageBytes });
    if (redis.topology !== "cluster") this.#replies.pushes.rideOn(() => blocking.whileFree);
    this.#streams = this.#makeStreams();
    this.#runner = this.#makeRunner();
    this.#heartbeat = this.#makeHeartbeat();
    this.intake = this.#makeIntake();
    const { popped, durable } = this.#sources();
    this.#fetcher = this.#makeFetcher(popped);
    slots.onFull = () => blocking.interrupt(); // a pop under way requested more than there are now
    this.#durables = durable.map((source) => this.#makeDurable(source));
  }

  /** Takes no more calls. */
  hold(): void {
    this.#fetcher.hold();
  }

  /** Takes calls again. */
  release(): void {
    this.#fetcher.release();
    for (const durable of this.#durables) durable.wake();
  }

  async #start(): Promise<void> {
    await this.#heartbeat.start();
    if (this.#host.isHeld()) this.#fetcher.hold();
    this.#fetcher.start();
    for (const durable of this.#durables) durable.start();
  }

  /** Waits for running calls, and aborts those that take too long. Streams get their credit meanwhile. */
  async #drain(): Promise<void> {
    const { slots, options } = this.#host;
    this.#fetcher.hold();
    await Promise.all(this.#durables.map((durable) => durable.stop()));
    const until = performance.now() + options.closeWithinMs;
    // A call that was popped during close() runs like the others.
    while (slots.taken > 0 || this.#fetcher.taking) {
      const left = until - performance.now();
      if (left <= 0) break;
      await slots.freed(Math.min(DRAIN_CHECK_MS, left), true);
    }
    await this.#fetcher.close();
    this.#runner.abortAll();
    await sleep(0); // the aborted calls respond now
    this.#streams.close();
  }

  get #exposeErrors(): boolean {
    return this.#host.options.exposeErrors ?? process.env.NODE_ENV === "development";
  }

  #makeStreams(): ServerStreams {
    const { streamIdleMs, maxMessageBytes } = this.#host.options;
    return new ServerStreams({
      replies: this.#replies,
      wheel: this.#wheel,
      controlList: this.#base.controlList,
      idleMs: streamIdleMs,
      maxMessageBytes,
      exposeErrors: this.#exposeErrors,
    });
  }

  #makeContextHost(): ContextHost {
    const { node, nested, report } = this.#host;
    const { clock, dialect } = this.#base;
    const replies = this.#replies;
    return {
      node,
      wheel: this.#wheel,
      now: () => clock.now(),
      progress: (call, percent, message) => {
        const progress = { time: Math.round(clock.now()), percent, message };
        const text = dialect.encodeProgress(progress, false);
        replies.post(dialect.keys.progress(call.method, call.id), text);
        if (call.replyTo === undefined) return;
        replies.post(replies.listFor(call), `{"id":${JSON.stringify(call.id)},"progress":${text}}`);
      },
      nested: (target, params, options) => nested.call(target, params, options),
      onError: report,
    };
  }

  #makeRunner(): CallRunner {
    const { redis, options, slots, middleware, emit } = this.#host;
    const { clock, dialect } = this.#base;
    const replies = this.#replies;
    return new CallRunner({
      redis,
      replies,
      slots,
      middleware,
      streams: this.#streams,
      host: this.#makeContextHost(),
      metrics: this.#metrics,
      maxMessageBytes: options.maxMessageBytes,
      exposeErrors: this.#exposeErrors,
      onFailed: (call, error) => {
        const { id, service, method } = call;
        redis.logger.warn({ err: error, id, service, method }, "a handler failed");
        emit("failed", call, error);
      },
      endProgress: (call, failed) => {
        const message = failed ? "failed" : "done";
        const progress = { time: Math.round(clock.now()), percent: 1, message };
        const text = dialect.encodeProgress(progress, true);
        replies.post(dialect.keys.progress(call.method, call.id), text);
      },
    });
  }

  #makeIntake(): CallIntake {
    const { redis, shedder, emit } = this.#host;
    const { clock, dialect, store } = this.#base;
    return new CallIntake({
      redis,
      dialect,
      store,
      shedder,
      runner: this.#runner,
      metrics: this.#metrics,
      now: () => clock.now(),
      clockErrorMs: () => clock.errorMs,
      mayServeSessions: (at) => this.#heartbeat.isAliveSince(at),
      onShed: (service) => emit("shed", service),
      onSetAside: (list, reason) => {
        redis.logger.warn(
          { err: reason, list },
          "a message without a usable id was moved to the dead list",
        );
        emit("setAside", list, reason);
      },
    });
  }

  #makeHeartbeat(): Heartbeat {
    const { redis, options, node, worker, services, slots, emit, report } = this.#host;
    const { dialect, controlList } = this.#base;
    const { heartbeatMs, atLeastOnce, ns } = options;
    const running = () => slots.taken;
    return new Heartbeat({
      redis,
      node,
      worker,
      heartbeatMs,
      signs: signsOfLife(dialect, services, { node, controlList, options, running }),
      leases: atLeastOnce ? requestSources(dialect, services).map(({ list }) => leases(list)) : [],
      // A durable call continues. If another worker has it by now, settling it is refused.
      onLapsed: () => {
        this.#runner.abortSessions();
        emit("lapsed");
      },
      onGone: () => register({ redis, dialect, ns, services }),
      onError: report,
    });
  }

  /** The lists that are popped, and the lists whose calls must survive this worker. */
  #sources(): { readonly popped: readonly Source[]; readonly durable: readonly Source[] } {
    const { options, services, node } = this.#host;
    const { dialect } = this.#base;
    const { group, atLeastOnce } = options;
    const requests = requestSources(dialect, services);
    const sessions = group === undefined ? [] : sessionSources(dialect, services, { group, node });
    return atLeastOnce
      ? { popped: sessions, durable: requests }
      : { popped: [...sessions, ...requests], durable: [] };
  }

  #makeFetcher(popped: readonly Source[]): CallFetcher {
    const { redis, options, slots, shedder, report } = this.#host;
    const { dialect, store, blocking, controlList } = this.#base;
    const modern = !options.plainPop && hasBlmpop(redis);
    return new CallFetcher({
      redis,
      store,
      blocking,
      controlList,
      slots,
      shedder,
      popper: new ListPopper(redis, blocking, { side: dialect.popSide, modern }),
      lists: new RequestLists(redis, store, popped),
      intake: this.intake,
      streams: this.#streams,
      replies: this.#replies,
      onError: report,
    });
  }

  #makeDurable(source: Source): DurableFetcher {
    const { redis, options, worker, slots, shedder, isHeld, emit, report } = this.#host;
    const { dialect, clock } = this.#base;
    const { maxRuns, resultTtlSeconds, heartbeatMs } = options;
    const { list } = source;
    const leaseMs = this.#heartbeat.ttlMs;
    const durable = new DurableFetcher({
      redis,
      list,
      slots,
      isHeld,
      store: new DurableStore({ redis, dialect, list, worker, leaseMs, maxRuns, resultTtlSeconds }),
      reclaimEveryMs: heartbeatMs,
      now: () => clock.now(),
      onCall: (text) => void this.intake.accept(source, { texts: [text], at: performance.now() }),
      maxQueueLength: shedder?.maxQueueLength,
      onExcess: (texts) => this.intake.refuseAll(source, texts),
      onReclaimed: (dead, calls) => {
        redis.logger.warn({ list, worker: dead, ...calls }, "calls of a dead worker were put back");
        emit("reclaimed", dead, calls);
      },
      onError: report,
    });
    source.durable = durable;
    return durable;
  }
}
