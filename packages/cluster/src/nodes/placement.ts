/**
 * Which node gets a task: of those that are online, know its type, are not drained and have room, the
 * one with the fewest tasks, and of those the least busy machine. Reports are a little old, so what this
 * process has placed since a node's last report counts too; else a burst would go to one node.
 *
 * The nodes are read at most twice a second. A choice is only a proposal: the writer compares
 * `stillUsable` in the same transaction, and asks again for a `fresh` one if that fails.
 */
import { childrenOf, keys } from "../keys.ts";
import { absent, rangeAll } from "../record.ts";
import type { Compare, Entry, Store } from "../store/store.ts";
import { isOnline, type NodeRecord, nodeOf } from "./node-record.ts";

/** The task to place. */
export interface PlacementRequest {
  readonly type: string;
  /** Nodes to exclude: they refused the task, or it is moving away from them. */
  readonly except: readonly string[];
  /** Read the nodes anew. @default false */
  readonly fresh?: boolean;
}

/** The node, or why there is none. */
export type PlacementResult =
  | { readonly nodeId: string; readonly reason?: never }
  | { readonly nodeId?: never; readonly reason: string };

/** How long the nodes that were read are used. */
const VIEW_MS = 500;

/** The nodes at one moment. */
interface View {
  readonly entries: readonly Entry[];
  readonly draining: ReadonlySet<string>;
  readonly readAt: number;
}

/** The conditions under which a node that was chosen, or named, may still get the task. */
export function stillUsable(nodeId: string): Compare[] {
  const node = keys.node("redissyncer", nodeId);
  return [{ key: node, target: "create", is: ">", than: 0 }, absent(keys.drain(nodeId))];
}

/** Chooses nodes; one per process. */
export class Placement {
  readonly #store: Store;
  /** By node: tasks given to it since the report of that revision. */
  readonly #given = new Map<string, { readonly revision: number; count: number }>();

  #view: View | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  async choose(request: PlacementRequest): Promise<PlacementResult> {
    const known = this.#view;
    const recent = known !== undefined && performance.now() - known.readAt < VIEW_MS;
    if (recent && request.fresh !== true) {
      const chosen = this.#chooseFrom(known, request);
      if (chosen.nodeId !== undefined) return chosen; // "no node" is never concluded from cached nodes
    }
    this.#view = await this.#read();
    return this.#chooseFrom(this.#view, request);
  }

  async #read(): Promise<View> {
    const readAt = performance.now();
    const [{ entries }, drained] = await Promise.all([
      rangeAll(this.#store, keys.nodes("redissyncer")),
      rangeAll(this.#store, keys.drains),
    ]);
    return { entries, draining: new Set(childrenOf(keys.drains, drained.entries)), readAt };
  }

  #chooseFrom({ entries, draining }: View, request: PlacementRequest): PlacementResult {
    const except = new Set(request.except);
    const candidates: Candidate[] = [];
    let online = 0;
    for (const entry of entries) {
      const node = nodeOf(entry);
      if (node === undefined || !isOnline(entry)) continue;
      online += 1;
      if (except.has(node.nodeid) || draining.has(node.nodeid)) continue;
      if (!node.types.includes(request.type)) continue;
      const tasks = node.load.tasks + this.#givenTo(node.nodeid, entry.modRevision);
      if (tasks < node.load.maxTasks) candidates.push({ node, tasks, revision: entry.modRevision });
    }
    const best = candidates.sort(byLoad)[0];
    if (best === undefined) return { reason: whyNone(online, entries.length) };
    this.#note(best);
    return { nodeId: best.node.nodeid };
  }

  #givenTo(nodeId: string, revision: number): number {
    const given = this.#given.get(nodeId);
    return given?.revision === revision ? given.count : 0;
  }

  #note({ node, revision }: Candidate): void {
    const count = this.#givenTo(node.nodeid, revision) + 1;
    this.#given.set(node.nodeid, { revision, count });
  }
}

interface Candidate {
  readonly node: NodeRecord;
  readonly tasks: number;
  readonly revision: number;
}

function byLoad(a: Candidate, b: Candidate): number {
  return (
    a.tasks - b.tasks ||
    a.node.load.cpu + a.node.load.memory - (b.node.load.cpu + b.node.load.memory) ||
    a.node.nodeid.localeCompare(b.node.nodeid)
  );
}

function whyNone(online: number, known: number): string {
  if (online === 0) return known === 0 ? "no node is registered" : "no node is online";
  return "no node has room for it: all are full, drained, refused it or cannot run its type";
}
