/**
 * The nodes as a portal has observed them: their last record and when it last changed, by this portal's own
 * clock. Clocks of different machines are never compared.
 */

import type { Logger } from "@ropeway/core";
import { Loop, reasonOf, timeoutSignal } from "@ropeway/core/internal";
import { CompactedError } from "../errors.ts";
import { keys } from "../keys.ts";
import { idOfNode, isOnline, type NodeRecord, nodeOf } from "../nodes/node-record.ts";
import { rangeAll } from "../record.ts";
import { CLOSE_WITHIN_MS } from "../store/limits.ts";
import type { Entry, Store } from "../store/store.ts";

/** What this portal knows about a node. */
export interface SeenNode {
  readonly record: NodeRecord;
  readonly online: boolean;
  /** When its record changed last, as performance.now(). */
  readonly changedAt: number;
  /** When this portal saw it go; undefined if it is online, or was gone before we looked. */
  readonly wentAt?: number | undefined;
}

const LIST_EVERY_MS = 60_000;

/** The nodes as this portal sees them. */
export class NodeWatch {
  readonly #store: Store;
  readonly #seen = new Map<string, SeenNode>();
  readonly #loop: Loop;
  readonly #onGone: () => void;
  #trouble = Number.NEGATIVE_INFINITY;
  #startedAt = Number.POSITIVE_INFINITY;

  constructor(store: Store, logger: Logger, onGone: () => void) {
    this.#store = store;
    this.#onGone = onGone;
    this.#loop = new Loop({
      tick: (signal) => this.#follow(signal),
      onError: (error) => {
        this.noteTrouble();
        logger.debug({ err: reasonOf(error) }, "cannot watch the nodes");
      },
      closeWithinMs: CLOSE_WITHIN_MS,
    });
  }

  start(): void {
    this.#startedAt = performance.now();
    this.#loop.start();
  }

  close(): Promise<void> {
    return this.#loop.close();
  }

  get(nodeId: string): SeenNode | undefined {
    return this.#seen.get(nodeId);
  }

  /** Nodes that were online and are not any more, within the last `withinMs`. */
  goneWithin(withinMs: number): number {
    const since = performance.now() - withinMs;
    return [...this.#seen.values()].filter(({ wentAt = -1 }) => wentAt >= since && wentAt >= 0)
      .length;
  }

  get onlineCount(): number {
    return [...this.#seen.values()].filter((node) => node.online).length;
  }

  /** The store could not be reached: for a while, missing reports of nodes prove nothing. */
  noteTrouble(): void {
    this.#trouble = performance.now();
  }

  /** How long this portal has watched the nodes. */
  get ageMs(): number {
    return performance.now() - this.#startedAt;
  }

  /** How long the store has been reachable. */
  get calmMs(): number {
    return performance.now() - this.#trouble;
  }

  async #follow(signal: AbortSignal): Promise<number> {
    const prefix = keys.nodes("redissyncer");
    const { entries, revision } = await rangeAll(this.#store, prefix);
    const present = new Set(entries.map(idOfNode));
    for (const entry of entries) this.#note(entry);
    for (const nodeId of this.#seen.keys()) if (!present.has(nodeId)) this.#noteGone(nodeId);
    const bound = AbortSignal.any([signal, timeoutSignal(LIST_EVERY_MS)]);
    try {
      for await (const events of this.#store.watch({ prefix, from: revision + 1, signal: bound })) {
        for (const { type, entry } of events) {
          if (type === "put") this.#note(entry);
          else this.#noteGone(idOfNode(entry));
        }
      }
    } catch (error) {
      if (!(error instanceof CompactedError)) throw error;
    }
    return 0;
  }

  #note(entry: Entry): void {
    const record = nodeOf(entry);
    if (record === undefined) return;
    const online = isOnline(entry);
    const before = this.#seen.get(record.nodeid);
    // An offline record that another portal wrote keeps the time at which the node went.
    const changedAt = !online && before?.online === false ? before.changedAt : performance.now();
    const wentAt = online ? undefined : before?.online ? performance.now() : before?.wentAt;
    this.#seen.set(record.nodeid, { record, online, changedAt, wentAt });
  }

  /** The id is undefined for a key of another program below the path of the nodes. */
  #noteGone(nodeId: string | undefined): void {
    const before = nodeId === undefined ? undefined : this.#seen.get(nodeId);
    if (nodeId === undefined || before?.online !== true) return;
    const now = performance.now();
    this.#seen.set(nodeId, { ...before, online: false, changedAt: now, wentAt: now });
    this.#onGone();
  }
}
