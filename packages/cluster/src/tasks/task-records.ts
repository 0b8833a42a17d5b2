/**
 * What is kept about a task besides the task itself: events, big keys, discarded keys. Each list is
 * bounded: the newest stay, the rest is counted by the runner. Names of records sort by age.
 */
import { createHash, randomBytes } from "node:crypto";
import type { Page } from "@ropeway/core";
import { keys } from "../keys.ts";
import { putRecord, rangeAll, recordOf, textOf, timeOf } from "../record.ts";
import type { KeyRecord } from "../runner.ts";
import { MAX_OPERATIONS } from "../store/limits.ts";
import type { Entry, Operation, Store } from "../store/store.ts";
import { decodeCursor, encodeCursor } from "./cursor.ts";
import type { Task } from "./task.ts";

/** How many of each kind stay. */
export const KEPT = { events: 200, bigKeys: 1_000, discarded: 1_000 } as const;

/** The number of changes of a task after which its lists are trimmed. */
const TRIM_EVERY = 50;

/** How many characters of a key, and of what is said about it, are stored. */
const MOST_TEXT = 1_000;

/** Something that happened to a task. */
export interface TaskEvent {
  readonly at: number;
  readonly event: string;
  readonly detail: string;
  readonly nodeId: string;
  readonly epoch: number;
}

/** A stored big or discarded key, with the documented names. */
export interface StoredKey {
  readonly id: string;
  readonly taskId: string;
  /** The Redis key. */
  readonly key: string;
  readonly command: string;
  readonly command_type: string;
  readonly at: number;
}

/** Which keys of a task are recorded. */
export type KeyRecordKind = "bigKeys" | "discarded";

/** The records of all tasks. */
export class TaskRecords {
  readonly #store: Store;
  /** Not the process: those of two containers, or two of this class, can have one number and one clock. */
  readonly #writer = randomBytes(6).toString("hex");
  #count = 0;

  constructor(store: Store) {
    this.#store = store;
  }

  /** The operation that notes an event, for the transaction that makes it true. */
  eventOperation(taskId: string, event: TaskEvent): Operation {
    const key = keys.event(taskId, this.#name(event.at));
    return { op: "put", key, value: JSON.stringify(event) };
  }

  /** In the order in which they happened: the store's, because the clocks of nodes and portals differ. */
  async events(taskId: string): Promise<TaskEvent[]> {
    const { entries } = await this.#store.range(keys.events(taskId));
    const inOrder = [...entries].sort((a, b) => a.createRevision - b.createRevision);
    return inOrder.map(eventOf).filter((one) => one !== undefined);
  }

  /** The operation that notes a key, for a transaction of its run. The same big key replaces its record. */
  keyOperation(
    kind: KeyRecordKind,
    taskId: string,
    record: KeyRecord & { readonly at: number },
  ): Operation {
    const id = kind === "bigKeys" ? safeName(record.key) : this.#name(record.at);
    const path = kind === "bigKeys" ? keys.bigKey(taskId, id) : keys.discarded(taskId, id);
    return putRecord(path, storedKey({ taskId, record, id, at: record.at }));
  }

  async page(kind: KeyRecordKind, taskId: string, options: PageRequest): Promise<Page<StoredKey>> {
    const prefix = kind === "bigKeys" ? keys.bigKeys(taskId) : keys.allDiscarded(taskId);
    const after = decodeCursor(options.cursor);
    const found = await this.#store.range(prefix, {
      limit: options.limit,
      after: after === undefined ? undefined : `${prefix}${after}`,
    });
    const items = found.entries.map(storedKeyOf).filter((one) => one !== undefined);
    const last = found.entries.at(-1);
    return found.more && last !== undefined
      ? { items, cursor: encodeCursor(last.key.slice(prefix.length)) }
      : { items };
  }

  /** The last offset that was stored for display. */
  async offset(taskId: string): Promise<Record<string, unknown>> {
    const found = recordOf<Record<string, unknown>>(await this.#store.get(keys.offset(taskId)));
    const number = (value: unknown) => (Number.isSafeInteger(value) ? value : 0);
    return {
      ...found,
      db: number(found?.db),
      epoch: number(found?.epoch),
      at: timeOf(found?.at) ?? 0,
    };
  }

  /** Removes the oldest of each list that is longer than its bound. */
  async trim(taskId: string): Promise<void> {
    await this.#trimTo(keys.events(taskId), KEPT.events);
    await this.#trimTo(keys.bigKeys(taskId), KEPT.bigKeys);
    await this.#trimTo(keys.allDiscarded(taskId), KEPT.discarded);
  }

  /** The same after some of its changes: runs trim when they end, but a task may change often without one. */
  async trimNowAndThen({ taskId, generation }: Task): Promise<void> {
    if (generation % TRIM_EVERY === 0) await this.trim(taskId);
  }

  /** Removes everything about a task that is removed; it may be more than fits into one transaction. */
  async removeAll(taskId: string): Promise<void> {
    for (const prefix of [keys.events(taskId), keys.bigKeys(taskId), keys.allDiscarded(taskId)]) {
      await this.#trimTo(prefix, 0);
    }
  }

  async #trimTo(prefix: string, most: number): Promise<void> {
    const { entries } = await rangeAll(this.#store, prefix);
    // Big keys are named after the key, so age is what the store knows.
    const oldest = [...entries].sort((a, b) => a.modRevision - b.modRevision);
    const excess = oldest.slice(0, Math.max(0, entries.length - most));
    for (let at = 0; at < excess.length; at += MAX_OPERATIONS) {
      const part = excess.slice(at, at + MAX_OPERATIONS);
      await this.#store.txn({ do: part.map(({ key }) => ({ op: "delete", key })) });
    }
  }

  #name(at: number): string {
    this.#count += 1;
    const unique = `${this.#writer}${this.#count.toString(36)}`;
    return `${String(Math.floor(at)).padStart(13, "0")}_${unique}`;
  }
}

/** Which part of a list. */
export interface PageRequest {
  readonly cursor?: string | undefined;
  readonly limit?: number | undefined;
}

/** The event in an entry; what another program left out gets its default. */
export function eventOf(entry: Entry): TaskEvent | undefined {
  const found = recordOf<Partial<Record<keyof TaskEvent, unknown>>>(entry);
  if (found === undefined) return undefined;
  return {
    at: timeOf(found.at) ?? 0,
    event: textOf(found.event),
    detail: textOf(found.detail),
    nodeId: textOf(found.nodeId),
    epoch: Number.isSafeInteger(found.epoch) ? (found.epoch as number) : 0,
  };
}

/** The same for a big or discarded key. */
function storedKeyOf(entry: Entry): StoredKey | undefined {
  const found = recordOf<Partial<Record<keyof StoredKey, unknown>>>(entry);
  if (found === undefined) return undefined;
  return {
    id: textOf(found.id),
    taskId: textOf(found.taskId),
    key: textOf(found.key),
    command: textOf(found.command),
    command_type: textOf(found.command_type),
    at: timeOf(found.at) ?? 0,
  };
}

function storedKey(what: { taskId: string; record: KeyRecord; id: string; at: number }): StoredKey {
  const { taskId, record, id, at } = what;
  // A record that is too long for the store would keep the whole run from being stored.
  const cut = (text: string) => text.slice(0, MOST_TEXT);
  const { key, command, type } = record;
  return { id, taskId, key: cut(key), command: cut(command), command_type: cut(type), at };
}

/** A key's name as a part of a path: itself if it is short and plain, else a digest. */
function safeName(key: string): string {
  if (/^[\w.:@{}-]{1,200}$/.test(key)) return key;
  const digest = createHash("sha256").update(key).digest("hex").slice(0, 32);
  return `${encodeURIComponent(
    key
      .replace(/\p{Surrogate}/gu, "?")
      .slice(0, 40)
      .replace(/\p{Surrogate}/gu, "?"),
  ).slice(0, 100)}~${digest}`;
}
