/** The requests and responses about tasks. */
import { z } from "zod";

const time = z.iso.datetime();
const config = z.record(z.string(), z.unknown());

/** A task, without secrets. */
export interface TaskView {
  readonly id: string;
  readonly name: string;
  readonly group: string;
  /** The node it is placed on; null if it has none. */
  readonly node: string | null;
  readonly type: string;
  readonly status: string;
  /** What the operator wants: run or stop. */
  readonly desired: "run" | "stop";
  readonly immortal: boolean;
  readonly epoch: number;
  readonly reason: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly progress: Readonly<Record<string, unknown>>;
  readonly createdAt: string;
  readonly updatedAt: string;
}
export const TaskView: z.ZodType<TaskView> = z.object({
  id: z.string(),
  name: z.string(),
  group: z.string(),
  node: z.string().nullable().describe("The node it is placed on; null if it has none."),
  type: z.string(),
  status: z
    .string()
    .describe(
      "CREATED, CREATING, STARTING, RDBRUNNING, COMMANDRUNNING, FAILOVER, STOP, FINISH or BROKEN.",
    ),
  desired: z.enum(["run", "stop"]).describe("What the operator wants."),
  immortal: z.boolean().describe("It runs on another node when its node is gone."),
  epoch: z.number().describe("The fencing token of its present or last run."),
  reason: z.string().describe("Why it is in its status."),
  config: config.describe("Without passwords."),
  progress: z.record(z.string(), z.unknown()),
  createdAt: time,
  updatedAt: time,
});

/** A page of tasks. */
export interface TaskPage {
  readonly items: readonly TaskView[];
  readonly cursor: string | null;
}
export const TaskPage: z.ZodType<TaskPage> = z.object({
  items: z.array(TaskView),
  cursor: z.string().nullable().describe("Asks for the next page; null on the last one."),
});

/** A new task. */
export interface NewTaskBody {
  readonly name: string;
  readonly type: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly group?: string | undefined;
  readonly immortal?: boolean | undefined;
  readonly start?: boolean | undefined;
}
export const NewTaskBody: z.ZodType<NewTaskBody> = z.strictObject({
  name: z.string().min(1).max(200),
  type: z.string().min(1).max(64).default("sync"),
  config: config.describe("Of a sync task: from, to, mode and the options of SyncTask."),
  group: z.string().min(1).max(128).optional(),
  immortal: z.boolean().optional(),
  start: z.boolean().optional().describe("Start it at once."),
}) as z.ZodType<NewTaskBody>;

/** A change of a task. */
export interface TaskEditBody {
  readonly name?: string | undefined;
  readonly group?: string | undefined;
  readonly config?: Readonly<Record<string, unknown>> | undefined;
  readonly immortal?: boolean | undefined;
}
export const TaskEditBody: z.ZodType<TaskEditBody> = z.strictObject({
  name: z.string().min(1).max(200).optional(),
  group: z.string().min(1).max(128).optional(),
  config: config.optional(),
  immortal: z.boolean().optional(),
});

/** The last stored offset of a task in its source. */
export interface TaskOffset {
  readonly replId: string;
  readonly replOffset: string;
  readonly db: number;
  readonly epoch: number;
  readonly at: string;
}
export const TaskOffset: z.ZodType<TaskOffset> = z.object({
  replId: z.string(),
  replOffset: z.string(),
  db: z.number(),
  epoch: z.number(),
  at: time,
});

/** A key that was split, or could not be written. */
export interface TaskKey {
  readonly id: string;
  readonly key: string;
  readonly command: string;
  readonly type: string;
  readonly at: string;
}

/** A page of such keys. */
export interface TaskKeyPage {
  readonly items: readonly TaskKey[];
  readonly cursor: string | null;
}
export const TaskKeyPage: z.ZodType<TaskKeyPage> = z.object({
  items: z.array(
    z.object({
      id: z.string(),
      key: z.string(),
      command: z.string().describe("What was done with it, or why it could not be written."),
      type: z.string(),
      at: time,
    }),
  ),
  cursor: z.string().nullable(),
});
