/** Public door of jobs. */
export type { JobContext } from "./attempt.ts";
export {
  InvalidDataError,
  InvalidFlowError,
  InvalidNameError,
  JobCancelledError,
  JobFailedError,
  type JobFailure,
  JobNotFoundError,
  JobStalledError,
  JobStateError,
  JobsClosedError,
  JobTimeoutError,
  LeaseLostError,
  MalformedJobError,
  NoHandlerError,
  RateLimitedError,
  UnrecoverableError,
} from "./errors.ts";
export { type QueueEvent, QueueEvents } from "./events.ts";
export type { ChildOutcome, FlowJob } from "./flow.ts";
export type { QueueCounts, SearchPage, SearchQuery, WorkerView } from "./inspector.ts";
export { Job } from "./job.ts";
export { JOB_STATES, type JobState, type JobView } from "./job-view.ts";
export type {
  BackoffFunction,
  BackoffPlan,
  DedupePlan,
  JobOptions,
  QueueLimits,
  QueueOptions,
  Rate,
  Retention,
  WorkerOptions,
} from "./options.ts";
export type { BatchHandler, Handler } from "./processor.ts";
export { type BulkJob, Queue } from "./queue.ts";
export type { Schedule, ScheduleView } from "./schedule.ts";
export { type SeedItem, type SeedLater, SeedQueue } from "./seed-queue.ts";
export {
  type SeedCallback,
  SeedWorker,
  type SeedWorkerOptions,
  type SeedWorkerPlan,
} from "./seed-worker.ts";
export { type Handlers, Worker, type WorkerEvents } from "./worker.ts";
