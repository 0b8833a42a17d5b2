/**
 * Redis Cluster: one Connection per master and a table from slot to master.
 *
 *   send(key) -> slot -> node ---- reply
 *                          |---- MOVED      the table is outdated: read it again, send to the named node
 *                          |---- ASK        the slot is moving: ASKING + the command, to the named node, once
 *                          |---- lost       the table may be outdated: read it again (failover), then as
 *                          |                in connection.ts: repeat if safe, else reject
 *                          `---- CLUSTERDOWN, TRYAGAIN: pause and repeat, bounded
 *
 * Node connections never make a command wait for a reconnect. The router waits instead, because
 * the slot may have another owner by then.
 */
import { BlockingConnection } from "./blocking.ts";
import type { ResolvedConnectOptions } from "./connect.ts";
import {
  Connection,
  type ConnectionPlan,
  isPermanent,
  isReply,
  type SendOptions,
} from "./connection.ts";
import { type Address, type Endpoint, showAddress, showEndpoint } from "./endpoint.ts";
import {
  ConnectFailedError,
  ConnectionClosedError,
  ConnectionLostError,
  NotConnectedError,
  ServerReplyError,
} from "./errors.ts";
import { slotOf } from "./keys.ts";
import type { Link } from "./link.ts";
import { Listeners } from "./listeners.ts";
import { Loans } from "./loans.ts";
import type { Logger } from "./logger.ts";
import type { Redis } from "./redis.ts";
import type { Argument, Reply } from "./reply.ts";
import type { Script } from "./script.ts";
import type { ServerInfo } from "./server-info.ts";
import { linkOptions } from "./single.ts";
import { SlotTable } from "./slot-table.ts";
import { Subscriber } from "./subscriber.ts";
import { sleep } from "./wait.ts";

/** An operation to run on the node that owns the slot. */
interface Routed<T> {
  readonly key: string | undefined;
  readonly repeatable: boolean;
  on(node: Connection): Promise<T>;
  asking(node: Connection): Promise<T>;
}

/** How often waits are restarted while slots move. */
const MOVES_EVERY_MS = 500;
const PAUSE_MS = 50;

/** A whole cluster with the Redis interface. */
export class ClusterRedis implements Redis {
  readonly topology = "cluster" as const;
  readonly where: string;
  readonly logger: Logger;
  readonly #options: ResolvedConnectOptions;
  readonly #plan: Omit<ConnectionPlan, "locate">;
  readonly #table: SlotTable;
  readonly #nodes = new Map<string, Connection>();
  #movedAt = Number.NEGATIVE_INFINITY;
  readonly #loans: Loans;
  readonly #lost = new Listeners<[ConnectionLostError]>();
  readonly #ready = new Listeners();
  /** The server of the newest link to any node. */
  #server: ServerInfo | undefined;
  #closed: Promise<void> | undefined;

  constructor(endpoint: Endpoint, options: ResolvedConnectOptions) {
    this.where = showEndpoint(endpoint);
    this.logger = options.logger;
    this.#options = options;
    this.#loans = new Loans(this.where);
    this.#plan = {
      where: this.where,
      link: linkOptions(endpoint, options),
      offlineWaitMs: 0,
      closeWithinMs: options.closeWithinMs,
      logger: options.logger,
    };
    this.#table = new SlotTable(endpoint.addresses, (address) => this.#node(address));
  }

  async opened(waitMs: number): Promise<this> {
    const until = performance.now() + waitMs;
    for (;;) {
      try {
        await this.#table.refresh();
        return this;
      } catch (error) {
        if (performance.now() < until && !isPermanent(error)) {
          await sleep(PAUSE_MS);
          continue;
        }
        await this.close();
        throw isPermanent(error) ? error : new ConnectFailedError(this.where, error);
      }
    }
  }

  get connected(): boolean {
    return this.#closed === undefined && this.#masters().every((node) => node.connected);
  }

  get server(): ServerInfo {
    return this.#server as ServerInfo; // known since opened()
  }

  send<T extends Reply = Reply>(
    args: readonly (string | Buffer)[],
    options: SendOptions = {},
  ): Promise<T> {
    return this.#route<T>({
      key: options.key,
      repeatable: options.repeatable === true,
      on: (node) => node.send<T>(args, options),
      asking: (node) =>
        node.issue({
          label: String(args[0]),
          repeatable: options.repeatable === true,
          issue: (link) => {
            link.asking();
            return link.send(args, options.binary) as Promise<T>;
          },
        }),
    });
  }

  run<T>(script: Script<T>, keys: readonly string[], args: readonly Argument[]): Promise<T> {
    return this.#route<T>({
      key: keys[0],
      repeatable: script.idempotent,
      on: (node) => node.run(script, keys, args),
      asking: async (node) => {
        const reply = await node.issue({
          label: script.name,
          repeatable: script.idempotent,
          issue: (link) => {
            link.asking();
            return link.eval(script, keys, args); // run() might send SCRIPT LOAD between ASKING and the script
          },
        });
        return script.parse === undefined ? (reply as T) : script.parse(reply);
      },
    });
  }

  blocking(purpose: string, key: string): Promise<BlockingConnection> {
    const plan = this.#lentPlan(purpose, 0, () => this.#ownerOf(key));
    // On the node where it waits, even if the slot has moved: on another node the id belongs to another client.
    const unblock = async (waiting: Link) => {
      const link = this.#nodes.get(waiting.where)?.current;
      await link?.send(["CLIENT", "UNBLOCK", String(waiting.clientId)]);
    };
    return this.#loans.lend(
      (onClosed) => new BlockingConnection({ ...plan, onClosed }, unblock),
      this.#options.connectWaitMs,
    );
  }

  subscriber(purpose: string): Promise<Subscriber> {
    // Cluster forwards every PUBLISH to all nodes, so any current master is suitable.
    let next = 0;
    const anyMaster = async () => {
      if (next > 0) await this.#refresh();
      const masters = this.#table.addresses;
      return masters[next++ % masters.length] as Address;
    };
    const plan = this.#lentPlan(purpose, this.#options.heartbeatMs, anyMaster);
    return this.#loans.lend(
      (onClosed) => new Subscriber({ ...plan, onClosed }),
      this.#options.connectWaitMs,
    );
  }

  onLost(listener: (error: ConnectionLostError) => void): () => void {
    return this.#lost.add(listener);
  }

  onReady(listener: () => void): () => void {
    return this.#ready.add(listener);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    await this.#loans.close();
    await Promise.all([...this.#nodes.values()].map((node) => node.close()));
  }

  async #route<T>(routed: Routed<T>): Promise<T> {
    const until = performance.now() + this.#options.offlineWaitMs;
    let redirect: { readonly node: Connection; readonly ask: boolean } | undefined;
    for (;;) {
      if (this.#closed !== undefined) throw new ConnectionClosedError(this.where);
      try {
        const node = redirect?.node ?? this.#nodeOf(routed.key);
        if (!node.connected) await node.link(PAUSE_MS);
        return await (redirect?.ask ? routed.asking(node) : routed.on(node));
      } catch (error) {
        redirect = this.#redirected(error);
        if (isReply(error, "ASK") || isReply(error, "TRYAGAIN")) this.#slotMoves();
        if (redirect?.ask) continue;
        if (redirect === undefined && !mayRepeat(error, routed.repeatable)) throw error;
        if (performance.now() > until) throw error;
        await this.#refresh();
        if (redirect === undefined) await sleep(PAUSE_MS);
      }
    }
  }

  /**
   * A slot is moving to another node, where new keys already appear. Commands that wait on the old
   * node would not notice, so waits with returnWhenMoving are ended.
   */
  #slotMoves(): void {
    const now = performance.now();
    if (now - this.#movedAt < MOVES_EVERY_MS) return;
    this.#movedAt = now;
    this.#loans.slotMoves();
  }

  /** The node that MOVED or ASK names. */
  #redirected(error: unknown): { node: Connection; ask: boolean } | undefined {
    if (!(error instanceof ServerReplyError)) return undefined;
    const match = /(MOVED|ASK) \d+ (.+):(\d+)$/.exec(error.message);
    if (match === null) return undefined;
    const [, kind, host = "", port] = match;
    return { node: this.#node({ host, port: Number(port) }), ask: kind === "ASK" };
  }

  async #refresh(): Promise<void> {
    try {
      await this.#table.refresh();
      this.#forgetOldNodes();
    } catch (error) {
      this.logger.debug({ err: error }, "cannot read the cluster's slots yet");
    }
  }

  #nodeOf(key: string | undefined): Connection {
    const address =
      key === undefined ? this.#table.addresses[0] : this.#table.addressOf(slotOf(key));
    if (address === undefined) throw new NotConnectedError(this.where, 0);
    return this.#node(address);
  }

  async #ownerOf(key: string): Promise<Address> {
    await this.#refresh();
    const address = this.#table.addressOf(slotOf(key));
    if (address === undefined) throw new NotConnectedError(this.where, 0);
    return address;
  }

  #node(address: Address): Connection {
    if (this.#closed !== undefined) throw new ConnectionClosedError(this.where);
    const name = showAddress(address);
    let node = this.#nodes.get(name);
    if (node === undefined) {
      const fresh = new Connection({ ...this.#plan, where: name, locate: async () => address });
      fresh.onLost((error) => this.#lost.tell(error));
      fresh.onReady(() => {
        this.#server = fresh.server;
        this.#ready.tell();
      });
      this.#nodes.set(name, fresh);
      node = fresh;
    }
    return node;
  }

  #masters(): Connection[] {
    return this.#table.addresses.map((address) => this.#node(address));
  }

  /** Closes connections to servers that no longer own a slot. */
  #forgetOldNodes(): void {
    const masters = new Set(this.#table.addresses.map(showAddress));
    for (const [name, node] of this.#nodes) {
      if (masters.has(name)) continue;
      this.#nodes.delete(name);
      node.close().catch((error) => this.logger.debug({ err: error }, "cannot close a node"));
    }
  }

  #lentPlan(purpose: string, heartbeatMs: number, locate: () => Promise<Address>): ConnectionPlan {
    const name = `${this.#options.name}:${purpose}`;
    return {
      ...this.#plan,
      offlineWaitMs: this.#options.offlineWaitMs,
      link: { ...this.#plan.link, name, heartbeatMs },
      locate,
    };
  }
}

function mayRepeat(error: unknown, repeatable: boolean): boolean {
  if (error instanceof NotConnectedError || error instanceof ConnectionClosedError) return true;
  if (error instanceof ConnectionLostError) return repeatable;
  // The node's Connection does not wait here, so these replies reach this code. MOVED and ASK do so
  // only if they name no host; the table then has it.
  return (
    error instanceof ServerReplyError &&
    /^(CLUSTERDOWN|TRYAGAIN|LOADING|MASTERDOWN|BUSY|READONLY|MOVED|ASK)$/.test(error.prefix)
  );
}
