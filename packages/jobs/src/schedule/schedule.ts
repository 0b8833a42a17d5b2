/** Recurring jobs: the shape of a schedule. core's recurrence.ts computes its due times. */
import { InvalidArgumentError, InvalidOptionError } from "@ropeway/core";
import { between, flag, integer, type Rule, recurrenceProblem } from "@ropeway/core/internal";
import type { AnyJobs, JobInput, JobName, JobTypes } from "../definition.ts";
import { type JobOptions, LONGEST_MS } from "../options.ts";

/** When a recurring job is due. Exactly one of `cron` and `everyMs` is given. */
export interface ScheduleTimes {
  /** Five or six fields, or an alias such as @daily. */
  readonly cron?: string;
  /** IANA name for `cron`. @default "UTC" */
  readonly timeZone?: string;
  /** The interval, counted from `startAt` (or 1970), so that all processes agree on the times. */
  readonly everyMs?: number;
  /** Not due before this time, ms. */
  readonly startAt?: number;
  /** Not due after this time, ms. */
  readonly endAt?: number;
  /** The number of runs; then the schedule ends. @default no limit */
  readonly limit?: number;
  /** Run once immediately, then at its times. @default false */
  readonly immediately?: boolean;
}

/** A recurring job: when it is due, and what each run adds. */
export type Schedule<Jobs extends JobTypes<Jobs> = AnyJobs> = {
  readonly [N in JobName<Jobs>]: ScheduleTimes & {
    readonly name: N;
    readonly options?: Omit<JobOptions, "id" | "delayMs" | "runAt" | "dedupe">;
    /** Skip a run while the previous one has not ended. @default false */
    readonly noOverlap?: boolean;
  } & (undefined extends JobInput<Jobs, N>
      ? { readonly data?: JobInput<Jobs, N> }
      : { readonly data: JobInput<Jobs, N> });
}[JobName<Jobs>];

/** A schedule in the list of schedules. */
export type ScheduleView = Schedule & {
  readonly id: string;
  /** When it is due next; undefined if it has ended. */
  readonly nextAt?: number;
  /** How often it ran. */
  readonly runs: number;
  /** The value in Redis could not be read, so it never runs. */
  readonly malformed?: true;
};

const KNOWN = new Set([
  "cron",
  "timeZone",
  "everyMs",
  "startAt",
  "endAt",
  "limit",
  "immediately",
  "name",
  "data",
  "options",
  "noOverlap",
]);

const TIME = between(0, 1e13);
const RULES: Readonly<Record<string, Rule<unknown>>> = {
  everyMs: between(1, LONGEST_MS),
  startAt: TIME,
  endAt: TIME,
  limit: integer(1),
  immediately: flag,
  noOverlap: flag,
};

/** Refuses a schedule that can never be due. */
export function checkSchedule(schedule: Schedule): void {
  if (typeof schedule !== "object" || schedule === null) {
    throw new InvalidArgumentError("schedule", schedule, "an object");
  }
  const given = schedule as unknown as Record<string, unknown>;
  for (const name of Object.keys(given)) {
    if (!KNOWN.has(name)) {
      throw new InvalidOptionError(name, given[name], `one of ${[...KNOWN].join(", ")}`);
    }
    const rule = RULES[name];
    if (given[name] !== undefined && rule !== undefined && !rule.accepts(given[name])) {
      throw new InvalidOptionError(name, given[name], rule.allowed);
    }
  }
  const problem = recurrenceProblem(schedule);
  if (problem === undefined) return;
  throw new InvalidOptionError(problem.name, problem.value, problem.allowed);
}
