/**
 * A worker process: any number of services on one blocking connection.
 *
 *   control list, session lists, request lists (rotated)
 *        |
 *        v  BLMPOP, at most as many as there are free slots
 *   Dispatcher --> ReplyWriter          everything that ends in one event leaves in one push per caller,
 *                                      in one write with the next pop if it ended at once
 *
 * Only what can be started is popped: a call that waits, waits in Redis, where another worker can
 * have it. When all slots are busy the control list alone is looked at, now and then.
 */
import { hostname } from "node:os";
import { isReply, type Redis, RedisClock } from "@ropeway/core";
import { Loop, newToken, resolveOptions, sleep } from "@ropeway/core/internal";
import { createClient, type RpcClient } from "../client/client.ts";
import { RpcClosedError, ServerClosingError, SessionLostError } from "../errors.ts";
import { leases } from "../keys.ts";
import { type ServerOptions, serverTable } from "../options.ts";
import { register } from "../registry/registry.ts";
import type { AnyHandlers, Handlers, MethodTable, Service } from "../service/service.ts";
import { hasBlmpop, ListPopper, leaves, type Popped } from "../store/list-popper.ts";
import { ServerStreams } from "../stream/server-streams.ts";
import { TimerWheel } from "../timer-wheel.ts";
import { dialectOf } from "../wire/choose-dialect.ts";
import type { Dialect } from "../wire/dialect.ts";
import { JsonRpcDialect } from "../wire/jsonrpc-dialect.ts";
import type { ContextHost } from "./call-context.ts";
import { Dispatcher } from "./dispatcher.ts";
import { DurableFetcher } from "./durable-fetcher.ts";
import { Heartbeat, type SignOfLife } from "./heartbeat.ts";
import { ReplyWriter } from "./reply-writer.ts";
import { RequestLists, requestSources, sessionSources } from "./request-lists.ts";
import {
  type Middleware,
  type ServedService,
  type Source,
  serveService,
} from "./served-service.ts";

/** How often a worker without a free slot looks at its control list. */
const BUSY_LOOK_MS = 25;

/** What a server tells about itself. */
export interface ServerStats {
  readonly node: string;
  readonly running: number;
  /** Calls refused unread because their deadline had passed. */
  readonly expired: number;
  /** Messages kept in the dead list. */
  readonly setAside: number;
  /** Messages that were parsed. */
  readonly parsed: number;
}

/** See the top of the file. Add services, then start(). */
export class RpcServer implements AsyncDisposable {
  readonly node: string;
  readonly #worker = newToken();
  readonly #redis: Redis;
  readonly #options: Required<ServerOptions>;
  readonly #services: ServedService[] = [];
  readonly #middleware: Middleware[] = [];
  readonly #wheel = new TimerWheel();
  readonly #loop: Loop;
  #parts: Parts | undefined;
  #client: Promise<RpcClient> | undefined;
  #sources: RequestLists | undefined;
  #durables: readonly DurableFetcher[] = [];
  #slotFreed: (() => void) | undefined;
  #closed: Promise<void> | undefined;

  constructor(redis: Redis, options?: ServerOptions) {
    this.#redis = redis;
    this.#options = resolveOptions(serverTable, options);
    this.node =
      this.#options.node ?? `${hostname().replace(/[:/\s]/g, "-")}-${this.#worker.slice(0, 8)}`;
    this.#loop = new Loop({
      tick: () => this.#tick(),
      onError: (error) => redis.logger.warn({ err: error }, "cannot fetch calls yet"),
      backoff: { baseMs: 10, maxMs: 1_000 },
    });
  }

  /** Serves a described service; the handlers are checked by its types. */
  add<M extends MethodTable>(service: Service<M>, handlers: Handlers<M>): this;
  /** Serves a service that is only a name; handlers get `params` as it came. */
  add(service: string, handlers: AnyHandlers): this;
  add(service: Service | string, handlers: object): this {
    this.#services.push(serveService(service, handlers as AnyHandlers));
    return this;
  }

  /** Adds a layer around all handlers; the first added is the outermost. */
  use(middleware: Middleware): this {
    this.#middleware.push(middleware);
    return this;
  }

  /** Registers the services and begins to take calls. */
  async start(): Promise<this> {
    if (this.#closed !== undefined) throw new RpcClosedError("the server");
    const clock = await RedisClock.start(this.#redis);
    const dialect = dialectOf(this.#redis, this.#options, clock);
    this.#parts = await this.#assemble(clock, dialect);
    this.#sources = this.#listSources(dialect);
    await this.#guarded(register(this.#redis, dialect, this.#options.ns, this.#services));
    await this.#parts.heartbeat.start();
    this.#loop.start();
    for (const durable of this.#durables) durable.start();
    return this;
  }

  stats(): ServerStats {
    const { active = 0, expired = 0, setAside = 0, parsed = 0 } = this.#parts?.dispatcher ?? {};
    return { node: this.node, running: active, expired, setAside, parsed };
  }

  /** Takes no more calls, lets the running ones end (bounded), and leaves the registry. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #assemble(clock: RedisClock, dialect: Dialect): Promise<Parts> {
    const options = this.#options;
    const redis = this.#redis;
    const desk = new ReplyWriter(redis, dialect, options.resultTtlSeconds);
    const controlList = dialect.keys.control(this.#worker);
    const streams = new ServerStreams({
      desk,
      wheel: this.#wheel,
      controlList,
      idleMs: options.streamIdleMs,
      maxMessageBytes: options.maxMessageBytes,
    });
    const host: ContextHost = {
      node: this.node,
      wheel: this.#wheel,
      now: () => clock.now(),
      progress: (call, percent, message) => {
        const progress = { time: Math.round(clock.now()), percent, message };
        const text = dialect.encodeProgress(progress);
        desk.post(dialect.keys.progress(call.method, call.id), text);
        if (call.replyTo === undefined) return;
        desk.post(desk.listFor(call), `{"id":${JSON.stringify(call.id)},"progress":${text}}`);
      },
      nested: async (target, params, callOptions) =>
        (await this.#nestedClient()).call(target, params, callOptions),
    };
    const dispatcher = new Dispatcher({
      redis,
      dialect,
      desk,
      streams,
      host,
      maxMessageBytes: options.maxMessageBytes,
      middleware: this.#middleware,
      clockErrorMs: () => clock.errorMs,
      mayServeSessions: (at) => this.#parts?.heartbeat.isAliveSince(at) ?? false,
      onSlotFreed: () => this.#slotFreed?.(),
    });
    const blocking = await redis.blocking("rpc-calls", controlList);
    if (redis.topology !== "cluster") desk.pushes.rideOn(() => blocking.whileFree);
    const modern = !options.plainPop && hasBlmpop(redis);
    const popper = new ListPopper(blocking, dialect.popSide, modern);
    const heartbeat = this.#heartbeat(dialect, dispatcher, controlList);
    return { clock, dialect, desk, streams, dispatcher, blocking, popper, heartbeat, controlList };
  }

  /** Made when a handler first calls another service. */
  #nestedClient(): Promise<RpcClient> {
    const { dialect, ns, prefix, maxMessageBytes } = this.#options;
    this.#client ??= createClient(this.#redis, { dialect, ns, prefix, maxMessageBytes }).catch(
      (error) => {
        this.#client = undefined; // the next handler tries again
        throw error;
      },
    );
    return this.#client;
  }

  #heartbeat(dialect: Dialect, dispatcher: Dispatcher, controlList: string): Heartbeat {
    const { heartbeatMs, group, version, concurrency, atLeastOnce } = this.#options;
    const since = Date.now();
    const told = { node: this.node, ctl: controlList, version, host: hostname(), pid: process.pid };
    const signs: SignOfLife[] = this.#services.map((service) => ({
      index: dialect.keys.worksIndex(service.name),
      key: dialect.keys.works(service.name, this.node),
      value: () =>
        JSON.stringify({
          ...told,
          since,
          caps: ["rt", "st", "dl"],
          concurrency,
          running: dispatcher.active,
          methods: Object.fromEntries(
            [...service.methods.values()].map(({ name, stats }) => [name, stats.snapshot()]),
          ),
        }),
    }));
    if (group !== undefined && dialect instanceof JsonRpcDialect) {
      signs.push({
        index: dialect.keys.groupIndex(group),
        key: dialect.keys.group(group, this.node),
        value: () => JSON.stringify({ ...told, since, concurrency, running: dispatcher.active }),
      });
    }
    return new Heartbeat({
      redis: this.#redis,
      node: this.node,
      worker: this.#worker,
      heartbeatMs,
      signs,
      leases: atLeastOnce
        ? requestSources(dialect, this.#services).map(({ list }) => leases(list))
        : [],
      // A durable call goes on: if another worker has it by now, settling it will be refused.
      onLapsed: () =>
        dispatcher.abortWhere(
          (source) => source.group !== undefined,
          new SessionLostError(group ?? ""),
        ),
    });
  }

  #listSources(dialect: Dialect): RequestLists {
    const { group, atLeastOnce } = this.#options;
    const requests = requestSources(dialect, this.#services);
    const popped = atLeastOnce ? [] : requests;
    if (atLeastOnce) this.#durables = requests.map((source) => this.#durable(source));
    if (group === undefined) return new RequestLists(this.#redis, popped);
    const sessions = sessionSources(dialect, this.#services, { group, node: this.node });
    return new RequestLists(this.#redis, [...sessions, ...popped]);
  }

  #durable(source: Source): DurableFetcher {
    const { dialect, dispatcher, heartbeat, clock } = this.#parts as Parts;
    const { maxRuns, resultTtlSeconds, concurrency } = this.#options;
    const durable = new DurableFetcher({
      redis: this.#redis,
      dialect,
      list: source.list,
      worker: this.#worker,
      leaseMs: heartbeat.ttlMs,
      maxRuns,
      resultTtlSeconds,
      now: () => clock.now(),
      freeSlots: async () => {
        if (dispatcher.active >= concurrency) await this.#nextFreeSlot(BUSY_LOOK_MS);
        return concurrency - dispatcher.active;
      },
      onCall: (text) => void dispatcher.accept(source, { texts: [text], at: performance.now() }),
    });
    source.durable = durable;
    return durable;
  }

  async #tick(): Promise<number> {
    const { dispatcher, desk } = this.#parts as Parts;
    const { concurrency } = this.#options;
    const free = concurrency - dispatcher.active;
    if (free <= 0) return this.#whileBusy();
    const popped = await this.#pop(free);
    if (popped === null) return 0;
    await this.#handle(popped);
    await leaves(desk.pushes); // the answers there are already
    return 0;
  }

  async #pop(free: number): Promise<Popped | null> {
    const { popper, controlList } = this.#parts as Parts;
    const sources = this.#sources as RequestLists; // known since start()
    const lists = [controlList, ...sources.next()];
    try {
      return await popper.pop(lists, { count: free, blockMs: sources.blockMs });
    } catch (error) {
      if (isReply(error, "WRONGTYPE")) await sources.avoidWrongTypes(error);
      throw error;
    }
  }

  async #handle(popped: Popped): Promise<void> {
    const { dispatcher } = this.#parts as Parts;
    const source = this.#sources?.get(popped.list);
    if (source === undefined) return this.#control(popped.texts);
    let next = dispatcher.accept(source, popped);
    while (next < popped.texts.length) {
      await leaves(); // handlers that block: what they have answered, before the others run
      next = dispatcher.accept(source, popped, next);
    }
  }

  async #whileBusy(): Promise<number> {
    await this.#nextFreeSlot(BUSY_LOOK_MS);
    const { dispatcher, controlList, dialect } = this.#parts as Parts;
    if (dispatcher.active < this.#options.concurrency) return 0;
    const verb = dialect.popSide === "RIGHT" ? "RPOP" : "LPOP";
    const texts = await this.#redis.send<string[] | null>([verb, controlList, "1000"], {
      key: controlList,
    });
    if (texts !== null) this.#control(texts);
    return 0;
  }

  #nextFreeSlot(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const before = this.#slotFreed;
      const done = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(done, withinMs);
      this.#slotFreed = () => {
        this.#slotFreed = undefined;
        before?.();
        done();
      };
    });
  }

  #control(texts: readonly string[]): void {
    const { dispatcher, streams, desk } = this.#parts as Parts;
    for (const text of texts) {
      try {
        const message = JSON.parse(text) as Record<string, unknown>;
        if (Array.isArray(message.again)) desk.again(message.again.map(String));
        else if (message.cancel === true) dispatcher.cancel(String(message.id));
        else streams.control(String(message.id), message);
      } catch (error) {
        this.#redis.logger.warn({ err: error, text }, "a control message is not understood");
      }
    }
  }

  async #guarded(registration: Promise<void>): Promise<void> {
    try {
      await registration;
    } catch (error) {
      await this.#parts?.blocking.close();
      await this.#parts?.clock.close();
      throw error;
    }
  }

  async #close(): Promise<void> {
    const parts = this.#parts;
    if (parts === undefined) return;
    const { dispatcher, desk, streams, clock, blocking, heartbeat } = parts;
    const stopped = Promise.all([this.#loop.close(), ...this.#durables.map((each) => each.stop())]);
    blocking.interrupt();
    await stopped;
    await this.#idle(dispatcher, performance.now() + this.#options.closeWithinMs);
    dispatcher.abortWhere(() => true, new ServerClosingError(this.#services[0]?.name ?? ""));
    await sleep(0); // what was aborted answers now
    streams.close();
    await desk.drained();
    try {
      await heartbeat.close();
      await this.#redis.send(["DEL", parts.controlList], {
        key: parts.controlList,
        repeatable: true,
      });
    } finally {
      // Whatever Redis says: a clock that runs on would keep the process alive.
      const client = await this.#client?.catch(() => undefined);
      await Promise.all([blocking.close(), client?.close(), clock.close()]);
    }
  }

  async #idle(dispatcher: Dispatcher, until: number): Promise<void> {
    while (dispatcher.active > 0 && performance.now() < until) {
      await this.#nextFreeSlot(Math.min(BUSY_LOOK_MS, until - performance.now()));
    }
  }
}

interface Parts {
  readonly clock: RedisClock;
  readonly dialect: Dialect;
  readonly desk: ReplyWriter;
  readonly streams: ServerStreams;
  readonly dispatcher: Dispatcher;
  readonly blocking: Awaited<ReturnType<Redis["blocking"]>>;
  readonly popper: ListPopper;
  readonly heartbeat: Heartbeat;
  readonly controlList: string;
}

/** Serves one service: `await serve(redis, users, { addUser: ... }, { ns: "shop" })`. */
export async function serve<M extends MethodTable>(
  redis: Redis,
  service: Service<M>,
  ...[handlers, options]: [handlers: Handlers<M>, options?: ServerOptions]
): Promise<RpcServer> {
  return new RpcServer(redis, options).add(service, handlers).start();
}
