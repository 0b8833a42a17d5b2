/** The nodes of a cluster, as operators see them. */
import type { Page } from "@ropeway/core";
import { concurrently } from "../concurrently.ts";
import { ProtectedError, UnknownNodeError, UnknownTaskError } from "../errors.ts";
import { childrenOf, keys, type NodeType } from "../keys.ts";
import { checkId } from "../names.ts";
import { optimistically, rangeAll, unchanged } from "../record.ts";
import type { Store } from "../store/store.ts";
import type { Tasks } from "../tasks/tasks.ts";
import { isOnline, type NodeRecord, nodeOf } from "./node-record.ts";

/** A node, and whether it is drained. */
export interface NodeView extends NodeRecord {
  readonly draining: boolean;
}

/** The most tasks that are changed at the same time. */
const MOST_AT_ONCE = 16;

/** The nodes. */
export class Nodes {
  readonly #store: Store;
  readonly #tasks: Tasks;

  constructor(store: Store, tasks: Tasks) {
    this.#store = store;
    this.#tasks = tasks;
  }

  /** All nodes of a type, or of both. There are few, so this is one page. */
  async list(type?: NodeType): Promise<Page<NodeView>> {
    const types: readonly NodeType[] = type === undefined ? ["redissyncer", "portal"] : [type];
    const drains = await rangeAll(this.#store, keys.drains);
    const draining = new Set(childrenOf(keys.drains, drains.entries));
    const items: NodeView[] = [];
    for (const one of types) {
      const { entries } = await rangeAll(this.#store, keys.nodes(one));
      for (const entry of entries) {
        const node = nodeOf(entry);
        if (node === undefined) continue;
        items.push({ ...node, online: isOnline(entry), draining: draining.has(node.nodeid) });
      }
    }
    return { items };
  }

  async get(nodeId: string): Promise<NodeView> {
    const key = keys.node("redissyncer", checkId("the node's id", nodeId));
    const entry = await this.#store.get(key);
    const node = nodeOf(entry);
    if (node === undefined) throw new UnknownNodeError(nodeId);
    const draining = (await this.#store.get(keys.drain(nodeId))) !== undefined;
    return { ...node, online: isOnline(entry), draining };
  }

  /** The node takes no new tasks, and its running ones move away. */
  async drain(nodeId: string): Promise<NodeView> {
    await this.get(nodeId);
    await this.#store.put(keys.drain(nodeId), JSON.stringify({ nodeId, at: Date.now() }));
    await this.#eachTask(nodeId, (taskId) => this.#tasks.leave(taskId, nodeId));
    return this.get(nodeId);
  }

  /** The node takes tasks again. */
  async undrain(nodeId: string): Promise<NodeView> {
    await this.#store.delete(keys.drain(checkId("the node's id", nodeId)));
    return this.get(nodeId);
  }

  /**
   * Removes a node that is offline, with its draining mark and its placements of tasks at rest.
   * Throws ProtectedError if it is online.
   */
  async forget(nodeId: string): Promise<void> {
    const key = keys.node("redissyncer", checkId("the node's id", nodeId));
    await optimistically(this.#store, `node ${nodeId}`, async () => {
      const entry = await this.#store.get(key);
      if (nodeOf(entry) === undefined) throw new UnknownNodeError(nodeId);
      if (isOnline(entry)) throw new ProtectedError(`node ${nodeId}`, "it is online");
      return {
        if: [unchanged(key, entry)],
        do: [
          { op: "delete", key },
          { op: "delete", key: keys.drain(nodeId) },
        ],
        result: undefined,
      };
    });
    await this.#eachTask(nodeId, (taskId) => this.#tasks.unplace(taskId, nodeId));
  }

  /** Calls a function for each task that is placed on the node, several at the same time. */
  async #eachTask(nodeId: string, work: (taskId: string) => Promise<unknown>): Promise<void> {
    const prefix = keys.tasksOfNode(nodeId);
    const { entries } = await rangeAll(this.#store, prefix);
    await concurrently(childrenOf(prefix, entries), MOST_AT_ONCE, (taskId) =>
      work(taskId).catch(unlessRemoved),
    );
  }
}

/** A task that was removed meanwhile needs nothing. */
function unlessRemoved(error: unknown): void {
  if (!(error instanceof UnknownTaskError)) throw error;
}
