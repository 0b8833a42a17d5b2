/** The public exports of jobs. */
export type {
  JobChanges,
  MinuteRates,
  QueueCounts,
  SearchQuery,
  WorkerView,
} from "./admin/admin.ts";
export { JOB_STATES, type JobState, type JobView } from "./admin/job-view.ts";
export {
  type AnyJobs,
  defineJobs,
  type JobData,
  JobDefinitions,
  type JobInput,
  type JobName,
  type JobResult,
  type JobReturn,
  type JobSchemas,
  type JobsOf,
  type JobType,
  type JobTypes,
} from "./definition.ts";
export {
  ChildFailedError,
  InvalidDataError,
  InvalidFlowError,
  JobCancelledError,
  JobFailedError,
  type JobFailure,
  JobNotFoundError,
  JobRemovedError,
  JobStalledError,
  JobStateError,
  JobTimeoutError,
  MalformedJobError,
  NoHandlerError,
  QueueActiveError,
  RateLimitedError,
  SandboxCrashedError,
  UnrecoverableError,
} from "./errors.ts";
export type { ChildOutcome, ChildPolicy, FlowJob, FlowRoot } from "./flow/flow.ts";
export type {
  BackoffFunction,
  BackoffPlan,
  DedupePlan,
  JobOptions,
  Middleware,
  QueueLimits,
  QueueOptions,
  Rate,
  Retention,
  SandboxOptions,
  WorkerOptions,
} from "./options.ts";
export type { AddArguments, BulkJob, OptionalData, RunOptions } from "./queue/arguments.ts";
export { Job } from "./queue/job.ts";
export { type JobOf, Queue } from "./queue/queue.ts";
export {
  type CompletedEvent,
  type EventHead,
  type QueueEvent,
  type QueueEventMap,
  QueueEvents,
} from "./queue/queue-events.ts";
export type { Schedule, ScheduleTimes, ScheduleView } from "./schedule/schedule.ts";
export { type SeedItem, type SeedLater, SeedQueue } from "./seed/seed-queue.ts";
export {
  type SeedCallback,
  SeedWorker,
  type SeedWorkerEvents,
  type SeedWorkerOptions,
  type SeedWorkerPlan,
} from "./seed/seed-worker.ts";
export type { JobContext } from "./worker/attempt.ts";
export type {
  AnyHandler,
  AnyJobContext,
  BatchHandler,
  BatchResults,
  Handler,
  HandlerRecord,
  Handlers,
} from "./worker/handler.ts";
export { Worker, type WorkerEvents } from "./worker/worker.ts";
