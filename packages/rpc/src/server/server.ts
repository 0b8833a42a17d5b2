/** A worker process: any number of services on one blocking connection. CallPipeline does the work. */
import { hostname } from "node:os";
import { InvalidArgumentError, type Redis } from "@ropeway/core";
import {
  BackgroundRole,
  newToken,
  type Opening,
  requireRedis,
  resolveOptions,
} from "@ropeway/core/internal";
import { RpcClient } from "../client/client.ts";
import { type ServerOptions, serverTable } from "../options.ts";
import type { AnyHandlers, Handlers, MethodTable, Service } from "../service/service.ts";
import type { ServiceErrors } from "../service/service-error.ts";
import { CallPipeline } from "./call-pipeline.ts";
import { LoadShedder } from "./load-shedder.ts";
import { type Middleware, type ServedService, serveService } from "./served-service.ts";
import type { ServerEvents } from "./server-events.ts";
import { Slots } from "./slots.ts";

/** The statistics of a server. */
export interface ServerStats {
  readonly node: string;
  readonly running: number;
  /** Calls that were refused without being parsed, because their deadline had passed. */
  readonly expired: number;
  /** Calls that were refused because of load. */
  readonly shed: number;
  /** Messages that were moved to the dead list. */
  readonly setAside: number;
  /** Messages that were parsed. */
  readonly parsed: number;
}

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
  readonly #shedder: LoadShedder | undefined;
  readonly #nested: RpcClient;
  #pipeline: CallPipeline | undefined;

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
   * Serves a defined service. Its types check the handlers. Throws InvalidArgumentError, also if
   * the server is started or already serves a service of this name.
   */
  add<M extends MethodTable, E extends ServiceErrors>(
    service: Service<M, E>,
    handlers: Handlers<M>,
  ): this;
  /** Serves a service by name only. Handlers get `params` as received. */
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

  /** The statistics since the start. */
  stats(): ServerStats {
    const { expired = 0, setAside = 0, parsed = 0, shed = 0 } = this.#pipeline?.intake ?? {};
    return { node: this.node, running: this.#slots.taken, expired, shed, setAside, parsed };
  }

  protected override async open({ defer }: Opening): Promise<void> {
    this.#pipeline = await CallPipeline.open(
      {
        redis: this.#redis,
        options: this.#options,
        node: this.node,
        worker: this.#worker,
        services: this.#services,
        middleware: this.#middleware,
        slots: this.#slots,
        shedder: this.#shedder,
        nested: this.#nested,
        isHeld: () => this.held,
        emit: (event, ...args) => this.emit(event, ...args),
        report: (error) => this.report(error),
      },
      defer,
    );
  }

  /** Takes no more calls. Running calls continue. */
  protected override hold(): void {
    this.#pipeline?.hold();
  }

  protected override release(): void {
    this.#pipeline?.release();
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
