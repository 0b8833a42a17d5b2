/** One end of a comparison: a server, the master of a Sentinel group, or a cluster. */
import { type Endpoint, InvalidOptionError, parseEndpoint } from "@ropeway/core";
import { ClusterNodes } from "../cluster/nodes.ts";
import { keySlot } from "../command/slot.ts";
import type { Connection } from "../wire/connection.ts";
import { Locator } from "../wire/locator.ts";
import { ClusterKeyReader } from "./cluster-key-reader.ts";
import { KeyReader, type KeySource } from "./key-reader.ts";

/** How to connect to an end. */
export interface EndOptions {
  readonly url: string;
  readonly option: "from" | "to";
  readonly name: string;
  readonly connectTimeoutMs: number;
  /** Added to every expiry that is read. */
  readonly ttlShiftMs: number;
  readonly signal: AbortSignal;
}

/** An open end. */
export interface End extends AsyncDisposable {
  readonly keys: KeySource;
  readonly clustered: boolean;
  /** The connection for WATCH and EXEC of a key. It is not the connection that reads. */
  guard(key: Buffer): Promise<Connection>;
  /** A connection to each master, in database 0. */
  servers(): Promise<readonly Connection[]>;
  /** The shard of a task that a key of this end belongs to. */
  shardOf(key: Buffer): Promise<number>;
}

/** Opens one end. Throws InvalidOptionError for files. */
export async function openEnd(options: EndOptions): Promise<End> {
  const { url, option } = options;
  if (/^(file|https?):/.test(url)) {
    throw new InvalidOptionError(option, url, "a server or a cluster: a file cannot be compared");
  }
  const endpoint = parseEndpoint(url, option);
  return endpoint.topology === "cluster"
    ? await openCluster(endpoint, options)
    : await openServer(endpoint, options);
}

async function openServer(endpoint: Endpoint, options: EndOptions): Promise<End> {
  const { option, name, connectTimeoutMs, ttlShiftMs, signal } = options;
  const locator = new Locator(endpoint, { connectTimeoutMs, name, master: option === "to" });
  const reading = await locator.connect(signal);
  const guarding = option === "to" ? await locator.connect(signal) : reading;
  return {
    keys: new KeyReader(reading, ttlShiftMs),
    clustered: false,
    guard: async () => guarding,
    servers: async () => [reading],
    shardOf: async () => 0,
    [Symbol.asyncDispose]: async () => {
      reading.destroy();
      guarding.destroy();
    },
  };
}

async function openCluster(endpoint: Endpoint, options: EndOptions): Promise<End> {
  const { name, connectTimeoutMs, ttlShiftMs, signal } = options;
  const reading = new ClusterNodes({ endpoint, name, connectTimeoutMs, signal });
  const guarding = new ClusterNodes({ endpoint, name, connectTimeoutMs, signal });
  await reading.refresh();
  return {
    keys: new ClusterKeyReader(reading, ttlShiftMs),
    clustered: true,
    guard: async (key) => guarding.at(await guarding.addressOf(keySlot(key))),
    servers: async () => {
      const masters = await reading.masters();
      return Promise.all(masters.map(({ address }) => reading.at(address)));
    },
    // The shards of a task are the masters in the order of their first slots.
    shardOf: async (key) => {
      const slots = (await reading.masters()).map(({ firstSlot }) => firstSlot);
      const owners = await reading.owners();
      const owner = owners[keySlot(key)];
      return slots.sort((a, b) => a - b).findIndex((slot) => owners[slot] === owner);
    },
    [Symbol.asyncDispose]: async () => {
      reading.close();
      guarding.close();
    },
  };
}
