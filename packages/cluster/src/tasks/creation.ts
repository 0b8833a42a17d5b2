/**
 * The transaction that creates a task. It is all that a create costs: one round trip and one sync of the
 * store's disk. Conditions are part of it instead of being read first: that the name is free, that
 * the request is new, that the chosen node is there and not drained.
 */
import { createHash } from "node:crypto";
import { InvalidArgumentError } from "@ropeway/core";
import { StoreUnavailableError } from "../errors.ts";
import { keys } from "../keys.ts";
import { stillUsable } from "../nodes/placement.ts";
import { absent, putRecord } from "../record.ts";
import type { Json, SplitConfig } from "../secrets.ts";
import type { Operation, Store, Transaction, TransactionResult } from "../store/store.ts";
import { taskOperations } from "./indexes.ts";
import type { Task } from "./task.ts";

export const CREATE_TRIES = 3;

/** The maximum size of a configuration with its encrypted secrets: progress and reasons need room in the record. */
const MOST_CONFIG_BYTES = 500_000;

/** What a new task is. */
export interface NewTask {
  readonly name: string;
  readonly type: string;
  readonly config: Json;
  readonly group?: string | undefined;
  readonly immortal?: boolean | undefined;
  /**
   * It may use the server that keeps the installation's accounts and tasks, files of its node, and HTTP
   * addresses: only for those who may do everything, because the task can then change accounts. @default false
   */
  readonly local?: boolean | undefined;
  /** Start it at once. @default false */
  readonly start?: boolean | undefined;
  /** Creating again with the same key and body returns the task that was created first. */
  readonly idempotencyKey?: string | undefined;
  /** The requester. Idempotency keys of different requesters are independent. @default "" */
  readonly requester?: string | undefined;
}

/** An idempotency key, and the body it came with, which may have passwords in it. */
export interface CreateRequest {
  readonly key: string;
  readonly body: string;
}

/** What is created. */
export interface Creation {
  readonly task: Task;
  /** Its body is a digest by now. */
  readonly request: CreateRequest | undefined;
  /** Notes the event. */
  readonly note: Operation;
}

/** Refuses a configuration with which a run could not store its progress and its end. */
export function checkSize<T extends SplitConfig>(sealed: T): T {
  const { config, secrets } = sealed;
  const bytes = Buffer.byteLength(JSON.stringify([config, secrets]));
  if (bytes > MOST_CONFIG_BYTES) {
    const allowed = `at most ${MOST_CONFIG_BYTES} bytes of JSON`;
    throw new InvalidArgumentError("config", `${bytes} bytes`, allowed);
  }
  return sealed;
}

/** The request of a new task that has an idempotency key. */
export function requestOf(wish: {
  readonly idempotencyKey?: string | undefined;
  readonly requester?: string | undefined;
}): CreateRequest | undefined {
  const { idempotencyKey, requester, ...body } = wish;
  if (idempotencyKey === undefined) return undefined;
  const scoped = requester === undefined ? idempotencyKey : `${requester}\n${idempotencyKey}`;
  return { key: keys.request(digest(scoped)), body: JSON.stringify(body) };
}

/**
 * Creates the task, or finds who holds its name and md5. A response that was lost is not a failure: the
 * id is ours, so reading it tells whether the task was created, and if not, it is safe to try again.
 */
export async function createOnce(store: Store, creation: Creation): Promise<TransactionResult> {
  const transaction = transactionOf(creation);
  for (let tries = 1; ; tries++) {
    try {
      return await store.txn(transaction);
    } catch (error) {
      const unsure = error instanceof StoreUnavailableError && error.maybeApplied;
      if (!unsure || tries === CREATE_TRIES) throw error;
      const found = await store.get(keys.task(creation.task.taskId));
      if (found !== undefined) {
        return { succeeded: true, revision: found.createRevision, found: [] };
      }
    }
  }
}

function transactionOf({ task, request, note }: Creation): Transaction {
  const { taskId, taskName, md5, nodeId, createTime: at } = task;
  const offset = { replId: "", replOffset: "-1", db: 0, epoch: 0, at };
  const names = [keys.ofName(taskName), keys.ofMd5(md5)];
  return {
    if: [
      ...[keys.task(taskId), ...names].map(absent),
      ...(request === undefined ? [] : [absent(request.key)]),
      ...(nodeId === "" ? [] : stillUsable(nodeId)),
    ],
    do: [
      ...taskOperations(undefined, task),
      putRecord(keys.offset(taskId), offset),
      note,
      ...(request === undefined
        ? []
        : [putRecord(request.key, { taskId, body: request.body, at })]),
    ],
    else: names.map((key) => ({ op: "get", key })),
  };
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 40);
}
