/**
 * The masters of a cluster: which one owns a slot, and a connection to each. The slot map is read from any node
 * that replies, and again after every MOVED and every lost connection.
 */
import { type Address, ConnectFailedError, type Endpoint, showEndpoint } from "@ropeway/core";
import { showAddress } from "@ropeway/core/internal";
import type { Reply } from "../resp/reply-reader.ts";
import { Connection } from "../wire/connection.ts";
import { SLOTS } from "./slot-tags.ts";

/** How connections are made. */
export interface NodesOptions {
  readonly endpoint: Endpoint;
  readonly name: string;
  readonly connectTimeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** See wire/off-limits.ts. */
  readonly keepOff?: readonly string[] | undefined;
}

/** A master and the first slot of each of its ranges. */
export interface Master {
  readonly address: Address;
  readonly firstSlot: number;
}

/** The masters of a cluster and the connections to them. */
export class ClusterNodes {
  readonly #options: NodesOptions;
  readonly #connections = new Map<string, Promise<Connection>>();
  #addresses: Address[] = [];
  #owners: Int32Array = new Int32Array(SLOTS).fill(-1);
  #refreshing: Promise<void> | undefined;
  #losses = 0;

  constructor(options: NodesOptions) {
    this.#options = options;
  }

  get where(): string {
    return showEndpoint(this.#options.endpoint);
  }

  /** How often a connection was lost or slots got another master. Each time, confirmed writes may have been lost. */
  get losses(): number {
    return this.#losses;
  }

  /** All masters that own slots. */
  async masters(): Promise<Master[]> {
    if (this.#addresses.length === 0) await this.refresh();
    return this.#addresses.map((address, index) => ({
      address,
      firstSlot: this.#owners.indexOf(index),
    }));
  }

  /** The master that owns a slot. */
  async addressOf(slot: number): Promise<Address> {
    if (this.#addresses.length === 0) await this.refresh();
    const address = this.#addresses[this.#owners[slot] ?? -1];
    if (address === undefined) {
      throw new ConnectFailedError(this.where, new Error(`no master owns slot ${slot}`));
    }
    return address;
  }

  /** For each slot, a number for the master that owns it. */
  async owners(): Promise<Int32Array> {
    if (this.#addresses.length === 0) await this.refresh();
    return this.#owners;
  }

  /** The open connection to a node, or a new one. */
  async at(address: Address): Promise<Connection> {
    const name = showAddress(address);
    for (;;) {
      const known = this.#connections.get(name);
      if (known === undefined) break;
      if ((await known).alive) return known;
      // Several callers may find it dead; the first one removes it.
      if (this.#connections.get(name) === known) {
        this.#connections.delete(name);
        this.#losses += 1;
      }
    }
    const opening = this.open(address);
    this.#connections.set(name, opening);
    opening.catch(() => {
      if (this.#connections.get(name) === opening) this.#connections.delete(name);
    });
    return opening;
  }

  /** Opens a connection that is not shared. */
  open(address: Address): Promise<Connection> {
    const { endpoint, ...options } = this.#options;
    const { username, password, tls } = endpoint;
    return Connection.open({ ...options, address, username, password, tls });
  }

  /** Reads the map again. Concurrent callers share one read. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#read().finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  close(): void {
    for (const opening of this.#connections.values()) {
      opening.then((connection) => connection.destroy()).catch(() => {});
    }
    this.#connections.clear();
  }

  async #read(): Promise<void> {
    let failure: unknown = new Error("no node is known");
    for (const address of [...this.#addresses, ...this.#options.endpoint.addresses]) {
      try {
        const connection = await this.at(address);
        this.#adopt(await connection.call<readonly Reply[]>("CLUSTER", "SLOTS"), address);
        return;
      } catch (error) {
        failure = error;
      }
    }
    throw new ConnectFailedError(this.where, failure);
  }

  #adopt(ranges: readonly Reply[], source: Address): void {
    const addresses = new Map<string, { index: number; address: Address }>();
    const owners = new Int32Array(SLOTS).fill(-1);
    for (const range of ranges as readonly (readonly [
      number,
      number,
      readonly [Buffer, number],
    ])[]) {
      const [first, last, [host, port]] = range;
      // A node that does not know its own host leaves it empty: it is the host that sent the reply.
      const own = "host" in source ? source.host : "127.0.0.1";
      const address = { host: String(host ?? "") || own, port: Number(port) };
      const name = showAddress(address);
      const known = addresses.get(name) ?? { index: addresses.size, address };
      addresses.set(name, known);
      owners.fill(known.index, first, last + 1);
    }
    if (addresses.size === 0) throw new Error("the cluster has no slots");
    const names = [...addresses.keys()];
    if (names.join() !== this.#addresses.map(showAddress).join()) this.#losses += 1;
    this.#addresses = [...addresses.values()].map(({ address }) => address);
    this.#owners = owners;
  }
}
