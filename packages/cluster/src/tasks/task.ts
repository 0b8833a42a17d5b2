/** A task as it is stored: the documented fields, and ours. */
import { createHash } from "node:crypto";
import { isName, isPart, lastPart } from "../keys.ts";
import { countOf, recordOf, textOf, timeOf } from "../record.ts";
import type { Json } from "../secrets.ts";
import type { Entry } from "../store/store.ts";
import { TASK_STATUSES, type TaskStatus } from "./status.ts";

/** The progress that a runner reports. */
export interface TaskProgress {
  readonly [name: string]: string | number | boolean | null;
}

/** The record under /tasks/taskid/{taskId}. */
export interface Task {
  readonly taskId: string;
  readonly groupId: string;
  /** The node it is placed on; "" if it has none. */
  readonly nodeId: string;
  readonly taskName: string;
  readonly type: string;
  readonly status: TaskStatus;
  /** What the operator wants. */
  readonly desired: "run" | "stop";
  /** Run it on another node when its node is gone. */
  readonly immortal: boolean;
  /** An admin configured it: it may use the server of the installation itself, and files of its node. */
  readonly local?: boolean;
  /** The fencing token of its present or last run: grows with every run. */
  readonly epoch: number;
  /** Whether the next run starts from the beginning instead of from the checkpoint. */
  readonly afresh: boolean;
  /** The reason for its status, or "". */
  readonly reason: string;
  /** Without secrets. */
  readonly config: Json;
  /** Encrypted, by JSON pointer into the configuration. */
  readonly secrets: Readonly<Record<string, string>>;
  readonly md5: string;
  readonly progress: TaskProgress;
  /** Nodes that refused it since it was started. */
  readonly refusedBy: readonly string[];
  /** Grows when its operator changes something. */
  readonly generation: number;
  readonly createTime: number;
  readonly updateTime: number;
}

const PARTS = ["taskId", "groupId", "nodeId", "type", "md5"] as const;

/** A record with more bytes is not ours, and has no room for a change. */
const MOST_BYTES = 900_000;

/**
 * The task in an entry; undefined if the entry holds something else, or something that no store could change.
 * Fields that another program left out get their defaults. So no record can stop an inspection of all.
 */
export function taskOf(entry: Entry | undefined): Task | undefined {
  const task = recordOf<Task>(entry);
  if (entry === undefined || task === undefined) return undefined;
  if (task.taskId !== lastPart(entry.key) || !TASK_STATUSES.includes(task.status)) return undefined;
  // Its indexes have these in their paths: one that cannot be there would stop every change of the task.
  if (PARTS.some((name) => !isPart(task[name])) || !isName(task.taskName)) return undefined;
  if (Buffer.byteLength(entry.value) > MOST_BYTES) return undefined;
  return {
    ...task,
    desired: task.desired === "run" ? "run" : "stop",
    immortal: task.immortal === true,
    ...(task.local !== undefined && { local: task.local === true }),
    epoch: countOf(task.epoch),
    afresh: task.afresh === true,
    reason: textOf(task.reason),
    config: task.config ?? {},
    secrets: isRecord(task.secrets) ? task.secrets : {},
    progress: isRecord(task.progress) ? task.progress : {},
    refusedBy: Array.isArray(task.refusedBy) ? task.refusedBy : [],
    generation: countOf(task.generation),
    createTime: timeOf(task.createTime) ?? 0,
    updateTime: timeOf(task.updateTime) ?? 0,
  };
}

function isRecord(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A digest that is equal for tasks that would do the same. */
export function md5Of(type: string, name: string, config: Json): string {
  return createHash("md5")
    .update(JSON.stringify([type, name, config]))
    .digest("hex");
}
