/** The sources of a task: one for each shard. */
import { type Address, type Endpoint, parseEndpoint } from "@ropeway/core";
import type { Position } from "../checkpoint.ts";
import { ClusterNodes } from "../cluster/nodes.ts";
import { keySlot } from "../command/slot.ts";
import type { Connection, ConnectionPlan } from "../wire/connection.ts";
import { Locator } from "../wire/locator.ts";
import type { Feed } from "./feed.ts";
import { PsyncFeed, type PsyncOptions, type ReplicaSource } from "./psync-feed.ts";

/** One shard of a source. */
export interface Source {
  readonly where: string;
  /** Whether a stream follows the snapshot. */
  readonly live: boolean;
  /** Opens it, after a position if there is one. */
  attach(after: Position | undefined): Promise<Feed>;
  /** A connection for reading keys anew; undefined if there is no server. */
  connect(): Promise<Connection> | undefined;
  /** Tells whether a key belongs to this shard, by the slots it has now. */
  ownership(): Promise<(key: Buffer) => boolean>;
}

/** How sources are opened. */
export interface SourceOptions extends Omit<PsyncOptions, "source"> {
  readonly url: string;
  readonly name: string;
}

/** The shards of a live source. */
export async function liveSources(options: SourceOptions): Promise<Source[]> {
  const endpoint = parseEndpoint(options.url, "from");
  if (endpoint.topology !== "cluster") {
    const { connectTimeoutMs, name } = options;
    return [liveSource(new Locator(endpoint, { connectTimeoutMs, name, master: false }), options)];
  }
  const { connectTimeoutMs, name, signal } = options;
  const nodes = new ClusterNodes({ endpoint, connectTimeoutMs, name, signal });
  try {
    const masters = await nodes.masters();
    return masters
      .sort((a, b) => a.firstSlot - b.firstSlot)
      .map(({ firstSlot }) => liveSource(new ShardLocator(endpoint, firstSlot, options), options));
  } finally {
    nodes.close();
  }
}

function liveSource(replica: ReplicaSource & Owner, options: SourceOptions): Source {
  return {
    where: replica.where,
    live: true,
    attach: (after) => PsyncFeed.attach({ ...options, source: replica }, after),
    connect: () => replica.connect(options.signal),
    ownership: async () => (await replica.ownership?.()) ?? (() => true),
  };
}

interface Owner {
  ownership?(): Promise<(key: Buffer) => boolean>;
}

/** The master of one shard of a cluster: whichever owns the shard's first slot at the moment. */
class ShardLocator implements ReplicaSource, Owner {
  readonly where: string;
  readonly #endpoint: Endpoint;
  readonly #slot: number;
  readonly #options: SourceOptions;

  constructor(endpoint: Endpoint, slot: number, options: SourceOptions) {
    this.#endpoint = endpoint;
    this.#slot = slot;
    this.#options = options;
    this.where = `slot ${slot} of ${options.name}`;
  }

  async address(): Promise<Address> {
    return this.#ask((nodes) => nodes.addressOf(this.#slot));
  }

  plan(address: Address): ConnectionPlan {
    const { username, password, tls } = this.#endpoint;
    return { address, username, password, tls };
  }

  async connect(): Promise<Connection> {
    return this.#ask(async (nodes) => nodes.open(await nodes.addressOf(this.#slot)));
  }

  async ownership(): Promise<(key: Buffer) => boolean> {
    const owners = await this.#ask((nodes) => nodes.owners());
    return (key) => owners[keySlot(key)] === owners[this.#slot];
  }

  async #ask<T>(question: (nodes: ClusterNodes) => Promise<T>): Promise<T> {
    const { connectTimeoutMs, name, signal } = this.#options;
    const nodes = new ClusterNodes({ endpoint: this.#endpoint, connectTimeoutMs, name, signal });
    try {
      return await question(nodes);
    } finally {
      nodes.close();
    }
  }
}
