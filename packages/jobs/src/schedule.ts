/** Recurring jobs: what a schedule is and when it is due. Cron and time zones are croner's. */
import { InvalidOptionError } from "@ropeway/core";
import { reasonOf } from "@ropeway/core/internal";
import { Cron } from "croner";
import type { JobOptions } from "./options.ts";

/** A recurring job. Exactly one of `cron` and `everyMs` is given. */
export interface Schedule {
  /** Five or six fields, or an alias such as @daily. */
  readonly cron?: string;
  /** IANA name for `cron`. @default "UTC" */
  readonly timeZone?: string;
  /** Every so many ms, counted from `startAt` (or 1970): all processes agree on the times. */
  readonly everyMs?: number;
  readonly startAt?: number;
  readonly endAt?: number;
  /** What each run adds. */
  readonly name: string;
  readonly data?: unknown;
  readonly options?: Omit<JobOptions, "id" | "delayMs" | "runAt" | "dedupe">;
  /** Skip a run while the one before has not ended. @default false */
  readonly noOverlap?: boolean;
}

/** A schedule as it is listed. */
export interface ScheduleView extends Schedule {
  readonly id: string;
  readonly nextAt?: number;
}

/** Refuses a schedule that can never be due. */
export function checkSchedule(schedule: Schedule): void {
  const { cron, everyMs, timeZone = "UTC" } = schedule;
  if ((cron === undefined) === (everyMs === undefined)) {
    throw new InvalidOptionError("cron", cron, "given, or everyMs, but not both");
  }
  if (everyMs !== undefined && !(Number.isFinite(everyMs) && everyMs >= 1)) {
    throw new InvalidOptionError("everyMs", everyMs, "a number of milliseconds of at least 1");
  }
  if (cron === undefined) return;
  try {
    new Cron(cron, { timezone: timeZone, paused: true }).nextRun(new Date(0));
  } catch (error) {
    throw new InvalidOptionError("cron", `${cron} (${timeZone})`, `valid: ${reasonOf(error)}`);
  }
}

/** The first due time after `after`; undefined if there is none. */
export function dueAfter(schedule: Schedule, after: number): number | undefined {
  const { cron, everyMs = 1, timeZone = "UTC", startAt, endAt } = schedule;
  const from = startAt === undefined ? after : Math.max(after, startAt - 1);
  let due: number | undefined;
  if (cron === undefined) {
    const origin = startAt ?? 0;
    due = origin + (Math.floor((from - origin) / everyMs) + 1) * everyMs;
  } else {
    const pattern = new Cron(cron, { timezone: timeZone, paused: true });
    due = pattern.nextRun(new Date(from))?.getTime();
  }
  return due === undefined || (endAt !== undefined && due > endAt) ? undefined : due;
}
