/** A Redis with one address at a time: standalone, or the master that the sentinels report. */
import { BlockingConnection } from "./blocking.ts";
import type { ResolvedConnectOptions } from "./connect.ts";
import { Connection, type ConnectionPlan, type SendOptions } from "./connection.ts";
import { type Address, type Endpoint, showEndpoint } from "./endpoint.ts";
import type { ConnectionLostError } from "./errors.ts";
import type { Link, LinkOptions } from "./link.ts";
import { Loans } from "./loans.ts";
import type { Logger } from "./logger.ts";
import type { Redis } from "./redis.ts";
import type { Argument, Reply } from "./reply.ts";
import type { Script } from "./script.ts";
import { Sentinels } from "./sentinel.ts";
import type { ServerInfo } from "./server-info.ts";
import { Subscriber } from "./subscriber.ts";

/** The common options of every link to this endpoint. */
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

/** A standalone server, or a master of Sentinel. */
export class SingleRedis implements Redis {
  readonly topology: Endpoint["topology"];
  readonly where: string;
  readonly logger: Logger;
  readonly #options: ResolvedConnectOptions;
  readonly #plan: ConnectionPlan;
  readonly #connection: Connection;
  readonly #sentinelWatch: Connection | undefined;
  readonly #loans: Loans;

  constructor(endpoint: Endpoint, options: ResolvedConnectOptions) {
    this.topology = endpoint.topology;
    this.where = showEndpoint(endpoint);
    this.logger = options.logger;
    this.#options = options;
    this.#loans = new Loans(this.where);
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
    // On the same server only: on another server the id belongs to another client.
    const unblock = async (waiting: Link) => {
      const link = this.#connection.current;
      if (link?.where !== waiting.where) return;
      await link.send(["CLIENT", "UNBLOCK", String(waiting.clientId)]);
    };
    return this.#loans.lend(
      (onClosed) => new BlockingConnection({ ...plan, onClosed }, unblock),
      this.#options.connectWaitMs,
    );
  }

  subscriber(purpose: string): Promise<Subscriber> {
    const plan = this.#lentPlan(purpose, this.#options.heartbeatMs);
    return this.#loans.lend(
      (onClosed) => new Subscriber({ ...plan, onClosed }),
      this.#options.connectWaitMs,
    );
  }

  onLost(listener: (error: ConnectionLostError) => void): () => void {
    return this.#connection.onLost(listener);
  }

  onReady(listener: () => void): () => void {
    return this.#connection.onReady(listener);
  }

  async close(): Promise<void> {
    // Lent connections first, because ending their waits needs this connection.
    await this.#loans.close();
    await Promise.all([this.#connection.close(), this.#sentinelWatch?.close()]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #lentPlan(purpose: string, heartbeatMs: number): ConnectionPlan {
    const name = `${this.#options.name}:${purpose}`;
    return { ...this.#plan, link: { ...this.#plan.link, name, heartbeatMs } };
  }

  #masterMoved(): void {
    const reason = new Error("the sentinels named another master");
    this.#connection.relocate(reason);
    this.#loans.relocate(reason);
  }
}
