/** The arguments of a queue's methods. A wrong argument is refused before anything is sent. */
import { InvalidArgumentError, InvalidOptionError } from "@ropeway/core";
import { requireSignal, type WaitBounds } from "@ropeway/core/internal";
import type { JobChanges } from "../admin/admin.ts";
import type { AnyJobs, JobInput, JobName, JobTypes } from "../definition.ts";
import type { JobOptions } from "../options.ts";
import { checkNames, checkObject } from "./job-plan.ts";

/** One of many jobs for addBulk(). */
export type BulkJob<Jobs extends JobTypes<Jobs> = AnyJobs> = {
  readonly [N in JobName<Jobs>]: { readonly name: N; readonly options?: JobOptions } & OptionalData<
    JobInput<Jobs, N>
  >;
}[JobName<Jobs>];

/** `data` may be left out if it may be undefined. */
export type OptionalData<Data> = undefined extends Data
  ? { readonly data?: Data }
  : { readonly data: Data };

/** The arguments after a job's name. */
export type AddArguments<Data> = undefined extends Data
  ? [data?: Data, options?: JobOptions]
  : [data: Data, options?: JobOptions];

/** How run() adds a job and how long it waits. `timeoutMs` bounds the wait, not the handler. */
export interface RunOptions extends Omit<JobOptions, "timeoutMs" | "awaited">, WaitBounds {}

const BULK_JOB = new Set(["name", "data", "options"]);
const CHANGES = new Set(["data", "priority", "delayMs", "runAt"]);
const BOUNDS = new Set(["timeoutMs", "signal", "what"]);

/** Checks the bounds of a wait. */
export function checkBounds(bounds: WaitBounds = {}): WaitBounds {
  checkNames("bounds", bounds, BOUNDS);
  const { timeoutMs, signal, what = "" } = bounds;
  if (timeoutMs !== undefined && !(typeof timeoutMs === "number" && timeoutMs >= 0)) {
    throw new InvalidOptionError("timeoutMs", timeoutMs, "a number of milliseconds of at least 0");
  }
  if (typeof what !== "string") throw new InvalidOptionError("what", what, "a string");
  requireSignal(signal);
  return bounds;
}

/** Checks the options of run(): how long to wait, and the options of the job. */
export function checkRun(options: RunOptions = {}): {
  readonly bounds: WaitBounds;
  readonly jobOptions: JobOptions;
} {
  checkObject("options", options);
  const { timeoutMs, signal, what, ...jobOptions } = options;
  const bounds = checkBounds({ timeoutMs, signal, ...(what === undefined ? {} : { what }) });
  return { bounds, jobOptions };
}

/** Checks the jobs of addBulk(). */
export function checkBulk(jobs: unknown): void {
  if (!Array.isArray(jobs)) throw new InvalidArgumentError("jobs", jobs, "an array of jobs");
  for (const job of jobs) checkNames("job", job, BULK_JOB);
}

/** Checks the changes of update(). */
export function checkChanges(changes: JobChanges): void {
  checkNames("changes", changes, CHANGES);
}

/** Checks the options of a method that has only one. */
export function checkOptions(options: object, only: string): void {
  checkNames("options", options, new Set([only]));
}
