/** The sources of a task: one for each shard. */
import { parseEndpoint } from "@ropeway/core";
import type { Position } from "../checkpoint.ts";
import { ClusterNodes } from "../cluster/nodes.ts";
import type { Connection } from "../wire/connection.ts";
import { Locator } from "../wire/locator.ts";
import type { Feed } from "./feed.ts";
import { forkBefore } from "./history-fork.ts";
import { PsyncFeed, type PsyncOptions, type ReplicaSource } from "./psync-feed.ts";
import { ShardLocator } from "./shard-locator.ts";

/** One shard of a source. */
export interface Source {
  readonly where: string;
  /** Whether a stream follows the snapshot. */
  readonly live: boolean;
  /** Opens the source, after the position if one is given. */
  attach(after: Position | undefined): Promise<Feed>;
  /** The offset at which the source's history departs from the target's, if before the position (history-fork.ts). */
  fork(position: Position): Promise<number | undefined>;
  /** A connection for reading keys again; undefined if the source is not a server. */
  connect(): Promise<Connection> | undefined;
  /** Returns a function that tells whether a key belongs to this shard, by its current slots. */
  ownership(): Promise<(key: Buffer) => boolean>;
  /** The shard of a cluster; undefined for other sources. */
  readonly shard?: ShardLocator;
}

/** How sources are opened. */
export interface SourceOptions extends Omit<PsyncOptions, "source"> {
  readonly url: string;
  readonly name: string;
  /** See wire/off-limits.ts. */
  readonly keepOff?: readonly string[] | undefined;
}

/** The shards of a live source. */
export async function liveSources(options: SourceOptions): Promise<Source[]> {
  const endpoint = parseEndpoint(options.url, "from");
  if (endpoint.topology !== "cluster") {
    const { connectTimeoutMs, name, keepOff } = options;
    const locator = new Locator(endpoint, { connectTimeoutMs, name, keepOff, master: false });
    return [liveSource(locator, options)];
  }
  const { connectTimeoutMs, name, signal, keepOff } = options;
  const nodes = new ClusterNodes({ endpoint, connectTimeoutMs, name, signal, keepOff });
  try {
    const owners = await nodes.owners();
    const slots = new Map<number, number[]>();
    owners.forEach((owner, slot) => {
      if (owner < 0) return;
      const own = slots.get(owner) ?? [];
      slots.set(owner, own);
      own.push(slot);
    });
    return [...slots.values()].map((each) => {
      const shard = new ShardLocator(endpoint, each, { connectTimeoutMs, name, signal, keepOff });
      return { ...liveSource(shard, options), shard, ownership: () => shard.ownership() };
    });
  } finally {
    nodes.close();
  }
}

function liveSource(replica: ReplicaSource, options: SourceOptions): Source {
  return {
    where: replica.where,
    live: true,
    attach: (after) => PsyncFeed.attach({ ...options, source: replica }, after),
    fork: async (position) => {
      await using connection = await replica.connect(options.signal);
      return await forkBefore(connection, position);
    },
    connect: () => replica.connect(options.signal),
    ownership: async () => () => true,
  };
}
