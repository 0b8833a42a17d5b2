/** Every verb of `ropeway merge` by its name on the command line. */
import type { Context } from "../context.ts";
import { attempts, endpoint, endpoints, watch } from "./endpoint-verbs.ts";
import { list, pause, peek, push, remove, resume, sendNow, stats } from "./key-verbs.ts";
import { discard, letter, letters, replay } from "./letter-verbs.ts";
import {
  pauseSchedule,
  resumeSchedule,
  schedule,
  schedules,
  showSchedule,
  unschedule,
} from "./schedule-verbs.ts";

export type VerbName =
  | "push"
  | "list"
  | "peek"
  | "send-now"
  | "delete"
  | "pause"
  | "resume"
  | "stats"
  | "letters"
  | "letter"
  | "replay"
  | "discard"
  | "endpoints"
  | "endpoint"
  | "attempts"
  | "schedules"
  | "schedule"
  | "show-schedule"
  | "unschedule"
  | "pause-schedule"
  | "resume-schedule"
  | "watch";

export const verbs: Readonly<Record<VerbName, (context: Context) => Promise<void>>> = {
  push,
  list,
  peek,
  "send-now": sendNow,
  delete: remove,
  pause,
  resume,
  stats,
  letters,
  letter,
  replay,
  discard,
  endpoints,
  endpoint,
  attempts,
  schedules,
  schedule,
  "show-schedule": showSchedule,
  unschedule,
  "pause-schedule": pauseSchedule,
  "resume-schedule": resumeSchedule,
  watch,
};
