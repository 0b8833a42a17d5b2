/**
 * One shard of a cluster. A master is not identified by its address, which changes with a failover, nor by a slot,
 * which may move to another master. A shard is the master that owns most of the slots that the shard had when it
 * was last looked up.
 */
import { type Address, ConnectFailedError, type Endpoint } from "@ropeway/core";
import { showAddress } from "@ropeway/core/internal";
import { holdingsOf } from "../cluster/holdings.ts";
import { ClusterNodes } from "../cluster/nodes.ts";
import { keySlot } from "../command/slot.ts";
import type { Reply } from "../resp/reply-reader.ts";
import type { Connection, ConnectionPlan } from "../wire/connection.ts";
import type { ReplicaSource } from "./psync-feed.ts";

/** How to connect to the nodes. */
export interface ShardLocatorOptions {
  readonly connectTimeoutMs: number;
  readonly name: string;
  readonly signal: AbortSignal;
  /** See wire/off-limits.ts. */
  readonly keepOff?: readonly string[] | undefined;
}

/** Finds the master of one shard of a cluster. */
export class ShardLocator implements ReplicaSource {
  readonly where: string;
  readonly #endpoint: Endpoint;
  readonly #options: ShardLocatorOptions;
  #slots: readonly number[];

  constructor(endpoint: Endpoint, slots: readonly number[], options: ShardLocatorOptions) {
    this.#endpoint = endpoint;
    this.#slots = slots;
    this.#options = options;
    this.where = `slot ${slots[0]} of ${options.name}`;
  }

  address(): Promise<Address> {
    return this.#ask((nodes) => this.#find(nodes));
  }

  plan(address: Address): ConnectionPlan {
    const { username, password, tls } = this.#endpoint;
    return { address, username, password, tls, keepOff: this.#options.keepOff };
  }

  connect(): Promise<Connection> {
    return this.#ask(async (nodes) => nodes.open(await this.#find(nodes)));
  }

  /** Returns a function that tells whether a key belongs to the shard, by its current slots. */
  async ownership(): Promise<(key: Buffer) => boolean> {
    await this.address();
    const own = new Set(this.#slots);
    return (key) => own.has(keySlot(key));
  }

  /** The slots that the shard has, and those that are being moved to it. */
  async holdings(): Promise<{ slots: readonly number[]; importing: readonly number[] }> {
    return this.#ask(async (nodes) => {
      const node = await nodes.at(await this.#find(nodes));
      const { importing } = holdingsOf(String(await node.call<Reply>("CLUSTER", "NODES")));
      return { slots: this.#slots, importing: [...importing] };
    });
  }

  /** Addresses of the masters that own slots. */
  masters(): Promise<readonly string[]> {
    return this.#ask(async (nodes) =>
      (await nodes.masters()).map(({ address }) => showAddress(address)),
    );
  }

  async #find(nodes: ClusterNodes): Promise<Address> {
    const owners = await nodes.owners();
    const shares = new Map<number, number>();
    for (const slot of this.#slots) {
      const owner = owners[slot] ?? -1;
      if (owner >= 0) shares.set(owner, (shares.get(owner) ?? 0) + 1);
    }
    const [most] = [...shares].sort(([, a], [, b]) => b - a);
    const master = most === undefined ? undefined : (await nodes.masters())[most[0]];
    if (master === undefined) {
      throw new ConnectFailedError(this.where, new Error("no master owns its slots"));
    }
    const index = (most as [number, number])[0];
    this.#slots = Array.from(owners.keys()).filter((slot) => owners[slot] === index);
    return master.address;
  }

  /** The map is read again for each query, because queries follow faults, which may have changed it. */
  async #ask<T>(question: (nodes: ClusterNodes) => Promise<T>): Promise<T> {
    const nodes = new ClusterNodes({ endpoint: this.#endpoint, ...this.#options });
    try {
      return await question(nodes);
    } finally {
      nodes.close();
    }
  }
}
