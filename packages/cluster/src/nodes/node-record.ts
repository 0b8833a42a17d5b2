/** What a node reports about itself under /nodes/{nodetype}/{nodeId}: the documented fields, and ours. */
import { freemem, loadavg, totalmem } from "node:os";
import { isPart, keys, lastPart, type NodeType } from "../keys.ts";
import { recordOf, textOf, timeOf } from "../record.ts";
import type { Entry } from "../store/store.ts";

/** How busy a node is. */
export interface NodeLoad {
  /** Load average per core over a minute, from 0. */
  readonly cpu: number;
  /** The part of the machine's memory in use, 0 to 1. */
  readonly memory: number;
  /** Tasks running. */
  readonly tasks: number;
  readonly maxTasks: number;
}

/** The record. */
export interface NodeRecord {
  readonly nodetype: NodeType;
  readonly nodeid: string;
  readonly nodeaddr: string;
  readonly nodeport: number;
  readonly heartbeaturl: string;
  readonly online: boolean;
  /** The node's own clock, ms; for people, not for decisions. */
  readonly lastreporttime: number;
  readonly version: string;
  readonly load: NodeLoad;
  /** Task types it can run. */
  readonly types: readonly string[];
  /** Why it is offline; "" while it is online. */
  readonly reason: string;
}

/** The record in an entry; what another program left out gets its default. */
export function nodeOf(entry: Entry | undefined): NodeRecord | undefined {
  const record = recordOf<Partial<NodeRecord>>(entry);
  if (entry === undefined || record === undefined) return undefined;
  const nodeid = idOfNode(entry);
  return nodeid === undefined || nodeid !== record.nodeid
    ? undefined
    : completeNode({ ...record, nodeid });
}

/** The node id in a path; undefined if it is not a valid id. */
export function idOfNode({ key }: Entry): string | undefined {
  const id = lastPart(key);
  const paths = [keys.node("redissyncer", id), keys.node("portal", id)];
  return isPart(id) && paths.includes(key) ? id : undefined;
}

/** A record with every field. */
export function completeNode(known: Partial<NodeRecord> & { readonly nodeid: string }): NodeRecord {
  const count = (value: unknown) => (Number.isFinite(value) ? (value as number) : 0);
  const load: Partial<NodeLoad> =
    typeof known.load === "object" && known.load !== null ? known.load : {};
  return {
    nodetype: known.nodetype === "portal" ? "portal" : "redissyncer",
    nodeid: known.nodeid,
    nodeaddr: textOf(known.nodeaddr),
    nodeport: count(known.nodeport),
    heartbeaturl: textOf(known.heartbeaturl),
    online: known.online === true,
    lastreporttime: timeOf(known.lastreporttime) ?? 0,
    version: textOf(known.version),
    load: {
      cpu: count(load.cpu),
      memory: count(load.memory),
      tasks: count(load.tasks),
      maxTasks: count(load.maxTasks),
    },
    types: Array.isArray(known.types) ? known.types.map(String) : [],
    reason: textOf(known.reason),
  };
}

/** Whether the entry is of a node that renews its lease. */
export function isOnline(entry: Entry | undefined): boolean {
  return entry?.lease !== undefined && nodeOf(entry)?.online === true;
}

/** The load of this machine. */
export function machineLoad(cores: number): { readonly cpu: number; readonly memory: number } {
  const round = (value: number) => Math.round(value * 1_000) / 1_000;
  const [minute = 0] = loadavg();
  return { cpu: round(minute / cores), memory: round(1 - freemem() / totalmem()) };
}

/** The parts of an address. */
export function addressParts(
  address: string,
): Pick<NodeRecord, "nodeaddr" | "nodeport" | "heartbeaturl"> {
  if (address === "") return { nodeaddr: "", nodeport: 0, heartbeaturl: "" };
  const { hostname, port, origin } = new URL(address);
  return { nodeaddr: hostname, nodeport: Number(port || 80), heartbeaturl: `${origin}/healthz` };
}
