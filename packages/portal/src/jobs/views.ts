/** From the library's objects to what the routes return: times are ISO strings. */
import type { JobView, MinuteRates, ScheduleView, WorkerView } from "@ropeway/jobs";
import { isoTime, isoTimeOrEpoch } from "../http/iso-time.ts";
import type { JobDetail, JobMinute, JobScheduleView, JobWorkerView } from "./jobs-contract.ts";

export function jobView({ addedAt, dueAt, activeSince, endedAt, ...job }: JobView): JobDetail {
  return {
    ...job,
    addedAt: isoTimeOrEpoch(addedAt),
    dueAt: optional(dueAt),
    activeSince: optional(activeSince),
    endedAt: optional(endedAt),
  };
}

export function workerView({ startedAt, seenAt, ...worker }: WorkerView): JobWorkerView {
  return { ...worker, startedAt: isoTimeOrEpoch(startedAt), seenAt: isoTimeOrEpoch(seenAt) };
}

export function scheduleView(schedule: ScheduleView): JobScheduleView {
  const { nextAt, startAt, endAt, ...rest } = schedule;
  return {
    ...rest,
    nextAt: optional(nextAt),
    startAt: optional(startAt),
    endAt: optional(endAt),
  };
}

export function minuteView({ at, ...counts }: MinuteRates): JobMinute {
  return { at: isoTimeOrEpoch(at), ...counts };
}

function optional(ms: number | undefined): string | undefined {
  return isoTime(ms) ?? undefined;
}
