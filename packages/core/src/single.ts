/** A Redis behind one address at a time: standalone, or the master that the sentinels name. */
import { BlockingConnection } from "./blocking.ts";
import type { ResolvedConnectOptions } from "./connect.ts";
import { Connection, type ConnectionPlan, type SendOptions } from "./connection.ts";
import { type Address, type Endpoint, showEndpoint } from "./endpoint.ts";
import type { ConnectionLostError } from "./errors.ts";
import type { LinkOptions } from "./link.ts";
import type { Logger } from "./logger.ts";
import type { Redis } from "./redis.ts";
import type { Argument, Reply } from "./reply.ts";
import type { Script } from "./script.ts";
import { Sentinels } from "./sentinel.ts";
import type { ServerInfo } from "./server-info.ts";
import { Subscriber } from "./subscriber.ts";

/** The fields of every link to this endpoint. */
export function linkOptions(
  endpoint: Endpoint,
  options: ResolvedConnectOptions,
): Omit<LinkOptions, "address"> {
  return {
    username: endpoint.username,
    password: endpoint.password,
    db: endpoint.db,
    tls: endpoint.tls,
    name: options.name,
    connectTimeoutMs: options.connectTimeoutMs,
    heartbeatMs: options.heartbeatMs,
    deadAfterMs: options.deadAfterMs,
  };
}

/** Standalone or Sentinel. */
export class SingleRedis implements Redis {
  readonly topology: Endpoint["topology"];
  readonly where: string;
  readonly logger: Logger;
  readonly #options: ResolvedConnectOptions;
  readonly #plan: ConnectionPlan;
  readonly #connection: Connection;
  readonly #sentinelWatch: Connection | undefined;
  readonly #lent = new Set<{ close(): Promise<void> }>();

  constructor(endpoint: Endpoint, options: ResolvedConnectOptions) {
    this.topology = endpoint.topology;
    this.where = showEndpoint(endpoint);
    this.logger = options.logger;
    this.#options = options;
    const common = {
      where: this.where,
      link: linkOptions(endpoint, options),
      offlineWaitMs: options.offlineWaitMs,
      closeWithinMs: options.closeWithinMs,
      logger: options.logger,
    };
    if (endpoint.topology === "sentinel") {
      const sentinels = new Sentinels(endpoint, common);
      this.#plan = {
        ...common,
        locate: (signal) => sentinels.master(signal),
        prepare: (link) => sentinels.checkRole(link),
      };
      this.#sentinelWatch = sentinels.watch(() => this.#masterMoved());
    } else {
      this.#plan = { ...common, locate: async () => endpoint.addresses[0] as Address };
    }
    this.#connection = new Connection(this.#plan);
  }

  async opened(waitMs: number): Promise<this> {
    try {
      await this.#connection.opened(waitMs);
      return this;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  get connected(): boolean {
    return this.#connection.connected;
  }

  get server(): ServerInfo {
    return this.#connection.server as ServerInfo; // known since opened()
  }

  send<T extends Reply = Reply>(
    args: readonly (string | Buffer)[],
    options?: SendOptions,
  ): Promise<T> {
    return this.#connection.send<T>(args, options);
  }

  run<T>(script: Script<T>, keys: readonly string[], args: readonly Argument[]): Promise<T> {
    return this.#connection.run(script, keys, args);
  }

  blocking(purpose: string): Promise<BlockingConnection> {
    const plan = this.#lentPlan(purpose, 0);
    return this.#lend(
      new BlockingConnection(plan, (clientId) =>
        this.send(["CLIENT", "UNBLOCK", String(clientId)], { repeatable: true }),
      ),
    );
  }

  subscriber(purpose: string): Promise<Subscriber> {
    return this.#lend(new Subscriber(this.#lentPlan(purpose, this.#options.heartbeatMs)));
  }

  onLost(listener: (error: ConnectionLostError) => void): () => void {
    return this.#connection.onLost(listener);
  }

  onReady(listener: () => void): () => void {
    return this.#connection.onReady(listener);
  }

  async close(): Promise<void> {
    // The lent ones first: ending their waits needs this connection.
    await Promise.all([...this.#lent].map((lent) => lent.close()));
    await Promise.all([this.#connection.close(), this.#sentinelWatch?.close()]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #lentPlan(purpose: string, heartbeatMs: number): ConnectionPlan {
    const name = `${this.#options.name}:${purpose}`;
    return { ...this.#plan, link: { ...this.#plan.link, name, heartbeatMs } };
  }

  async #lend<L extends Lent>(lent: L): Promise<L> {
    this.#lent.add(lent);
    return lent.opened(this.#options.connectWaitMs) as Promise<L>;
  }

  #masterMoved(): void {
    const reason = new Error("the sentinels named another master");
    this.#connection.relocate(reason);
    for (const lent of this.#lent) if (lent instanceof BlockingConnection) lent.relocate(reason);
  }
}

/** A connection lent for one purpose. */
export interface Lent {
  opened(waitMs: number): Promise<unknown>;
  close(): Promise<void>;
}
