/** The requests and responses of the task queues; see contract.ts. */
import { z } from "zod";

const time = z.iso.datetime();

/** The states of a job. */
export type JobStateName = "waiting" | "delayed" | "active" | "blocked" | "completed" | "failed";
export const JobStateName: z.ZodType<JobStateName> = z.enum([
  "waiting",
  "delayed",
  "active",
  "blocked",
  "completed",
  "failed",
]);

/** A queue in numbers. */
export interface JobQueueView {
  readonly name: string;
  readonly counts: Readonly<Record<JobStateName, number>>;
  readonly paused: boolean;
  /** How long the next job has waited. */
  readonly oldestWaitingMs: number | null;
  /** Since the queue exists. */
  readonly totals: Readonly<Record<"completed" | "failed" | "retried" | "stalled", number>>;
}
const queueShape = {
  name: z.string(),
  counts: z.object({
    waiting: z.int(),
    delayed: z.int(),
    active: z.int(),
    blocked: z.int().describe("Parents of flows that wait for their children."),
    completed: z.int().describe("Those that are kept."),
    failed: z.int().describe("The dead letters."),
  }),
  paused: z.boolean(),
  oldestWaitingMs: z.number().nullable().describe("How long the next job has waited."),
  totals: z
    .object({ completed: z.int(), failed: z.int(), retried: z.int(), stalled: z.int() })
    .describe("Since the queue exists."),
};
export const JobQueueView: z.ZodType<JobQueueView> = z.object(queueShape);

const rate = z.strictObject({ max: z.int().min(1), perMs: z.number().min(1) });
const limits = z.strictObject({
  concurrency: z.int().min(1).nullable().optional(),
  rate: rate.nullable().optional(),
  groupConcurrency: z.int().min(1).nullable().optional(),
  groupRate: rate.nullable().optional(),
});

/** A maximum number of jobs in a period. */
export interface JobRate {
  readonly max: number;
  readonly perMs: number;
}

/** Limits that all workers obey; null takes one away. */
export interface JobLimits {
  readonly concurrency?: number | null | undefined;
  readonly rate?: JobRate | null | undefined;
  readonly groupConcurrency?: number | null | undefined;
  readonly groupRate?: JobRate | null | undefined;
}
export const JobLimits: z.ZodType<JobLimits> = limits;

/** A worker of a queue. */
export interface JobWorkerView {
  readonly id: string;
  readonly name: string;
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly startedAt: string;
  readonly seenAt: string;
}

/** A recurring job. */
export interface JobScheduleView {
  readonly id: string;
  readonly name: string;
  readonly cron?: string | undefined;
  readonly timeZone?: string | undefined;
  readonly everyMs?: number | undefined;
  readonly nextAt?: string | undefined;
  readonly runs: number;
  readonly limit?: number | undefined;
  readonly startAt?: string | undefined;
  readonly endAt?: string | undefined;
  readonly noOverlap?: boolean | undefined;
  readonly malformed?: true | undefined;
}

/** A queue with its workers and its recurring jobs. */
export interface JobQueueDetail extends JobQueueView {
  readonly limits: JobLimits;
  readonly workers: readonly JobWorkerView[];
  readonly schedules: readonly JobScheduleView[];
}
export const JobQueueDetail: z.ZodType<JobQueueDetail> = z.object({
  ...queueShape,
  limits,
  workers: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      concurrency: z.int(),
      leaseMs: z.number(),
      startedAt: time,
      seenAt: time.describe("Its last sign of life."),
    }),
  ),
  schedules: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      cron: z.string().optional(),
      timeZone: z.string().optional(),
      everyMs: z.number().optional(),
      nextAt: time.optional().describe("When it is due next."),
      runs: z.int().describe("How often it ran."),
      limit: z.int().optional(),
      startAt: time.optional(),
      endAt: time.optional(),
      noOverlap: z.boolean().optional(),
      malformed: z.literal(true).optional().describe("It cannot be read and is not due any more."),
    }),
  ),
});

/** All stored information about a job. */
export interface JobDetail {
  readonly id: string;
  readonly state: JobStateName;
  readonly name: string;
  readonly data?: unknown;
  readonly addedAt: string;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly stalls: number;
  readonly priority: number;
  readonly group?: string | undefined;
  readonly parent?: string | undefined;
  readonly children?: number | undefined;
  readonly schedule?: string | undefined;
  readonly dueAt?: string | undefined;
  readonly worker?: string | undefined;
  readonly activeSince?: string | undefined;
  readonly fence?: number | undefined;
  readonly cancelling?: string | undefined;
  readonly progress?: unknown;
  readonly logs?: readonly string[] | undefined;
  readonly result?: unknown;
  readonly failure?: JobFailureView | undefined;
  readonly failures?: readonly JobFailureView[] | undefined;
  readonly endedAt?: string | undefined;
  readonly malformed?: true | undefined;
}

/** The error of a job's last attempt. */
export interface JobFailureView {
  readonly name: string;
  readonly message: string;
  readonly code?: string | undefined;
  readonly details?: Readonly<Record<string, unknown>> | undefined;
  readonly stack?: string | undefined;
}
const failure = z.object({
  name: z.string(),
  message: z.string(),
  code: z.string().optional(),
  details: z.record(z.string(), z.unknown()).optional(),
  stack: z.string().optional(),
});
export const JobDetail: z.ZodType<JobDetail> = z.object({
  id: z.string(),
  state: JobStateName,
  name: z.string(),
  data: z.unknown().optional(),
  addedAt: time,
  attempts: z.int().describe("Attempts that have ended."),
  maxAttempts: z.int(),
  stalls: z.int().describe("How often it lost its worker."),
  priority: z.int(),
  group: z.string().optional(),
  parent: z.string().optional(),
  children: z.int().optional(),
  schedule: z.string().optional(),
  dueAt: time.optional(),
  worker: z.string().optional(),
  activeSince: time.optional(),
  fence: z.int().optional(),
  cancelling: z.string().optional().describe("The reason for which its handler was asked to stop."),
  progress: z.unknown().optional(),
  logs: z.array(z.string()).readonly().optional(),
  result: z.unknown().optional(),
  failure: failure.optional().describe("The error of the last attempt."),
  failures: z.array(failure).readonly().optional().describe("Of the last ten attempts."),
  endedAt: time.optional(),
  malformed: z.literal(true).optional(),
});

/** One page of jobs. */
export interface JobPage {
  readonly items: readonly JobDetail[];
  readonly cursor: string | null;
}
export const JobPage: z.ZodType<JobPage> = z.object({
  items: z.array(JobDetail),
  cursor: z.string().nullable(),
});

/** A job to add. */
export interface NewJob {
  readonly name: string;
  readonly data?: unknown;
  readonly options?: NewJobOptions | undefined;
}

/** The options of a job over HTTP. */
export interface NewJobOptions {
  readonly id?: string | undefined;
  readonly delayMs?: number | undefined;
  readonly priority?: number | undefined;
  readonly attempts?: number | undefined;
  readonly group?: string | undefined;
  readonly timeoutMs?: number | undefined;
}
export const NewJob: z.ZodType<NewJob> = z.strictObject({
  name: z.string().min(1).max(1_000),
  data: z.unknown().optional(),
  options: z
    .strictObject({
      id: z.string().min(1).max(1_000).optional(),
      delayMs: z.number().min(0).optional(),
      priority: z.int().optional(),
      attempts: z.int().min(1).optional(),
      group: z.string().min(1).max(1_000).optional(),
      timeoutMs: z.number().min(1).optional(),
    })
    .optional(),
});

/** A minute of a queue. */
export interface JobMinute {
  readonly at: string;
  readonly completed: number;
  readonly failed: number;
  readonly retried: number;
  readonly stalled: number;
  readonly waiting: number;
  readonly delayed: number;
  readonly active: number;
}
export const JobMinute: z.ZodType<JobMinute> = z.object({
  at: time.describe("The beginning of the minute."),
  completed: z.int(),
  failed: z.int(),
  retried: z.int(),
  stalled: z.int(),
  waiting: z.int().describe("At the end of the minute, like the next two."),
  delayed: z.int(),
  active: z.int(),
});

/** What to change in a job that has not started. */
export interface JobChangesBody {
  readonly data?: unknown;
  readonly priority?: number | undefined;
  readonly delayMs?: number | undefined;
}
export const JobChangesBody: z.ZodType<JobChangesBody> = z.strictObject({
  data: z.unknown().optional(),
  priority: z.int().optional(),
  delayMs: z.number().min(0).optional(),
});

/** A recurring job to write. */
export interface JobScheduleBody {
  readonly name: string;
  readonly data?: unknown;
  readonly cron?: string | undefined;
  readonly timeZone?: string | undefined;
  readonly everyMs?: number | undefined;
  readonly startAt?: string | undefined;
  readonly endAt?: string | undefined;
  readonly limit?: number | undefined;
  readonly immediately?: boolean | undefined;
  readonly noOverlap?: boolean | undefined;
}
export const JobScheduleBody: z.ZodType<JobScheduleBody> = z.strictObject({
  name: z.string().min(1).max(1_000),
  data: z.unknown().optional(),
  cron: z.string().max(200).optional(),
  timeZone: z.string().max(100).optional(),
  everyMs: z.number().min(1).optional(),
  startAt: time.optional(),
  endAt: time.optional(),
  limit: z.int().min(1).optional(),
  immediately: z.boolean().optional(),
  noOverlap: z.boolean().optional(),
});
