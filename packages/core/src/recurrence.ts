/**
 * The times of a recurrence: by a cron pattern in a time zone (croner's), or at an interval in ms. Intervals
 * count from `startAt` or 1970, not from the time of the call, so all processes agree on the times, and
 * they do not drift.
 */
import { Cron } from "croner";
import { reasonOf } from "./errors.ts";

/** The times of a schedule. Exactly one of `cron` and `everyMs` is given. */
export interface Recurrence {
  readonly cron?: string | undefined;
  /** @default "UTC" */
  readonly timeZone?: string | undefined;
  readonly everyMs?: number | undefined;
  readonly startAt?: number | undefined;
  readonly endAt?: number | undefined;
  readonly immediately?: boolean | undefined;
}

/** The problem with a recurrence, for the error of the package. */
export interface RecurrenceProblem {
  readonly name: string;
  readonly value: unknown;
  readonly allowed: string;
}

const LONGEST_PATTERN = 200;
const FEWEST_FIELDS = 5;

/** Why a recurrence can never be due; undefined if it can. Numbers are checked by the package's rules. */
export function recurrenceProblem(times: Recurrence): RecurrenceProblem | undefined {
  const { cron, everyMs, timeZone, startAt = 0, endAt = startAt } = times;
  if ((cron === undefined) === (everyMs === undefined)) {
    return { name: "cron", value: cron, allowed: "given, or everyMs, but not both" };
  }
  if (timeZone !== undefined && !isTimeZone(timeZone)) {
    return { name: "timeZone", value: timeZone, allowed: "an IANA name, as in Europe/Berlin" };
  }
  if (endAt < startAt) return { name: "endAt", value: endAt, allowed: "at or after startAt" };
  if (cron === undefined) return undefined;
  const why = patternProblem(cron, timeZone);
  return why === undefined
    ? undefined
    : { name: "cron", value: cron, allowed: `a pattern: ${why}` };
}

function patternProblem(cron: unknown, timeZone: string | undefined): string | undefined {
  if (typeof cron !== "string") return "it is not a string";
  if (cron.length > LONGEST_PATTERN) return `it is longer than ${LONGEST_PATTERN} characters`;
  // croner also accepts a date, which is not a recurrence.
  const fields = cron.trim().split(/\s+/).length;
  if (!cron.trim().startsWith("@") && fields < FEWEST_FIELDS) return "it has fewer than 5 fields";
  try {
    return nextMatch(cron, timeZone, 0) === undefined ? "it matches no date" : undefined;
  } catch (error) {
    return reasonOf(error);
  }
}

function isTimeZone(name: unknown): boolean {
  if (typeof name !== "string") return false;
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false; // the caller reports it
  }
}

function nextMatch(cron: string, timeZone: string | undefined, after: number): number | undefined {
  const pattern = new Cron(cron, { timezone: timeZone ?? "UTC", paused: true });
  return pattern.nextRun(new Date(after))?.getTime();
}

/** The first time after `after`; undefined if there is none. */
export function dueAfter(times: Recurrence, after: number): number | undefined {
  const { cron, everyMs = 1, timeZone, startAt, endAt } = times;
  const from = startAt === undefined ? after : Math.max(after, startAt - 1);
  const origin = startAt ?? 0;
  const due =
    cron === undefined
      ? origin + (Math.floor((from - origin) / everyMs) + 1) * everyMs
      : nextMatch(cron, timeZone, from);
  return due === undefined || (endAt !== undefined && due > endAt) ? undefined : due;
}

/** The first time of a recurrence that begins at `now`; undefined if there is none. */
export function firstDue(times: Recurrence, now: number): number | undefined {
  if (times.immediately !== true) return dueAfter(times, now);
  const first = Math.max(now, times.startAt ?? now);
  return first > (times.endAt ?? first) ? undefined : first;
}
