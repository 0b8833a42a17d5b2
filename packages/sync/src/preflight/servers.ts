/** The servers of one end: one server, or every master of a cluster. */
import { type Endpoint, parseEndpoint } from "@ropeway/core";
import { ClusterNodes } from "../cluster/nodes.ts";
import { keySlot } from "../command/slot.ts";
import { checkpointKey } from "../keys.ts";
import { type Abilities, probe } from "../sink/abilities.ts";
import type { Connection } from "../wire/connection.ts";
import { Locator } from "../wire/locator.ts";
import { askServer, type ServerFacts } from "./server-facts.ts";

/** Which end to open. */
export interface ServersPlan {
  readonly end: "source" | "target";
  readonly url: string;
  readonly task: string;
  readonly connectTimeoutMs: number;
}

/** One server and the facts about it. */
export interface ExaminedServer {
  readonly connection: Connection;
  readonly facts: ServerFacts;
}

/** The servers that replied; none if the end is a file. */
export interface Servers extends AsyncDisposable {
  readonly clustered: boolean;
  readonly servers: readonly ExaminedServer[];
  /** The abilities of the target; undefined for a source, or if the target refuses writes. */
  readonly abilities: Abilities | undefined;
  /** Why the target refuses writes, if it does. */
  readonly refusal: string | undefined;
}

const NAME = "ropeway-check";

/** Opens the servers that can be reached; `onFailure` is called for the others. */
export async function openServers(
  plan: ServersPlan,
  onFailure: (error: unknown) => void,
): Promise<Servers> {
  const isServer = /^[\w+-]+:\/\//.test(plan.url) && !/^(https?|file):/.test(plan.url);
  if (!isServer) return servers(false, []);
  const endpoint = parseEndpoint(plan.url, plan.end === "source" ? "from" : "to");
  const clustered = endpoint.topology === "cluster";
  const found: ExaminedServer[] = [];
  for (const open of await openings(endpoint, plan).catch((error) => {
    onFailure(error);
    return [];
  })) {
    try {
      const connection = await open();
      found.push({ connection, facts: await askServer(connection) });
    } catch (error) {
      onFailure(error);
    }
  }
  if (plan.end === "source" || found.length === 0) return servers(clustered, found);
  try {
    const home = clustered ? await homeOf(endpoint, plan) : found[0]?.connection;
    const abilities = await probe(home as Connection, plan.task);
    if (clustered) home?.destroy();
    return { ...servers(clustered, found), abilities };
  } catch (error) {
    return { ...servers(clustered, found), refusal: (error as Error).message };
  }
}

function servers(clustered: boolean, found: readonly ExaminedServer[]): Servers {
  return {
    clustered,
    servers: found,
    abilities: undefined,
    refusal: undefined,
    [Symbol.asyncDispose]: async () => {
      for (const { connection } of found) connection.destroy();
    },
  };
}

/** A connect function for each server. */
async function openings(
  endpoint: Endpoint,
  { end, connectTimeoutMs }: ServersPlan,
): Promise<(() => Promise<Connection>)[]> {
  if (endpoint.topology !== "cluster") {
    const options = { connectTimeoutMs, name: NAME, master: end === "target" };
    return [() => new Locator(endpoint, options).connect()];
  }
  const nodes = new ClusterNodes({ endpoint, connectTimeoutMs, name: NAME });
  try {
    return (await nodes.masters()).map(
      ({ address }) =>
        () =>
          nodes.open(address),
    );
  } finally {
    nodes.close();
  }
}

/** The master that would own the task's own keys. */
async function homeOf(
  endpoint: Endpoint,
  { task, connectTimeoutMs }: ServersPlan,
): Promise<Connection> {
  const nodes = new ClusterNodes({ endpoint, connectTimeoutMs, name: NAME });
  try {
    return await nodes.open(await nodes.addressOf(keySlot(Buffer.from(checkpointKey(task, 0)))));
  } finally {
    nodes.close();
  }
}
