/** Recurring pushes: the shape of a schedule. core's recurrence.ts computes its due times. */
import { InvalidArgumentError, InvalidNameError } from "@ropeway/core";
import { between, flag, integer, type Rule, recurrenceProblem } from "@ropeway/core/internal";
import { checkJson } from "../admin/endpoint-queue.ts";
import { type DeliveryRequest, encodeRequest } from "../queue/delivery-request.ts";
import { type Destination, destination, isSingle } from "../queue/destination.ts";

/** When a schedule is due. Exactly one of `cron` and `everyMs` is given. */
export interface ScheduleTimes {
  /** Five or six fields, or an alias such as @daily. */
  readonly cron?: string | undefined;
  /** The IANA name of the time zone of `cron`. @default "UTC" */
  readonly timeZone?: string | undefined;
  /** The interval, at least 1000, counted from `startAt` (or 1970), so that all processes agree on the times. */
  readonly everyMs?: number | undefined;
  /** Not due before this time, ms since 1970. */
  readonly startAt?: number | undefined;
  /** Not due after this time, ms since 1970. */
  readonly endAt?: number | undefined;
  /** The number of runs; then the schedule ends. @default no limit */
  readonly limit?: number | undefined;
  /** Run once immediately, then at its times. @default false */
  readonly immediately?: boolean | undefined;
}

/** A recurring push: when it is due, and what each run pushes. */
export interface Schedule extends ScheduleTimes {
  /** The destination of the item. */
  readonly destination: {
    readonly mergeKey: string;
    /** @default "POST" */
    readonly method?: string | undefined;
    readonly url: string;
  };
  /** The item of each run, at most 262,144 bytes; JSON unless the merge key begins with "-". */
  readonly body: string | Buffer;
  /** The body's content type, for a merge key that begins with "-"; undefined means JSON. */
  readonly contentType?: string | undefined;
  /** `always` fires the items waiting under the merge key now, `once` keeps their time. @default "once" */
  readonly update?: "always" | "once" | undefined;
  /** How the batch is delivered. */
  readonly request?: DeliveryRequest | undefined;
  /** A run that is later than this is skipped. @default no limit: one run replaces all missed runs */
  readonly maxLateMs?: number | undefined;
}

/** A schedule that was checked, with its destination normalised. */
export type CheckedSchedule = Omit<Schedule, "destination"> & { readonly destination: Destination };

const LONGEST_BODY = 262_144;
const LONGEST_MS = 31_536_000_000;
const TIME = between(0, 253_402_300_799_999);
const RULES: Readonly<Record<string, Rule<unknown>>> = {
  everyMs: integer(1_000, LONGEST_MS),
  startAt: TIME,
  endAt: TIME,
  limit: integer(1),
  immediately: flag,
  maxLateMs: between(0, LONGEST_MS),
};
const NAMES = [
  ...["destination", "body", "contentType", "update", "request"],
  ...["cron", "timeZone", ...Object.keys(RULES)],
];

/** Throws InvalidNameError unless an id can be used in paths and keys. */
export function checkScheduleId(id: string): void {
  if (typeof id === "string" && /^[\w.:-]{1,128}$/.test(id)) return;
  throw new InvalidNameError("schedule id", id, "1 to 128 letters, digits, _, ., : or -");
}

/** Returns a checked copy. Throws InvalidArgumentError. */
export function checkSchedule(schedule: Schedule): CheckedSchedule {
  const given = schedule as unknown as Readonly<Record<string, unknown>>;
  for (const [name, value] of Object.entries(given)) {
    if (!NAMES.includes(name)) {
      throw new InvalidArgumentError(name, value, `one of ${NAMES.join(", ")}`);
    }
    const rule = RULES[name];
    if (value !== undefined && rule !== undefined && !rule.accepts(value)) {
      throw new InvalidArgumentError(name, value, rule.allowed);
    }
  }
  const problem = recurrenceProblem(schedule);
  if (problem !== undefined) {
    throw new InvalidArgumentError(problem.name, problem.value, problem.allowed);
  }
  encodeRequest(schedule.request);
  if (typeof schedule.destination !== "object" || schedule.destination === null) {
    throw new InvalidArgumentError("destination", schedule.destination, "an object");
  }
  const to = destination(schedule.destination);
  checkBody(schedule, isSingle(to.mergeKey));
  return { ...schedule, destination: to };
}

function checkBody({ body, contentType, update }: Schedule, single: boolean): void {
  if (typeof body !== "string" && !Buffer.isBuffer(body)) {
    throw new InvalidArgumentError("body", body, "a string or a Buffer");
  }
  const size = Buffer.byteLength(body);
  if (size > LONGEST_BODY) {
    throw new InvalidArgumentError("body", `${size} bytes`, `at most ${LONGEST_BODY} bytes`);
  }
  if (!single) checkJson(body);
  if (contentType !== undefined && !(single && /^[\x20-\x7e]{1,255}$/.test(contentType))) {
    const allowed = 'visible ASCII, for a merge key that begins with "-"';
    throw new InvalidArgumentError("contentType", contentType, allowed);
  }
  if (update !== undefined && update !== "always" && update !== "once") {
    throw new InvalidArgumentError("update", update, "always or once");
  }
}

/** A string that is equal for schedules with the same times. */
export function timesText(times: ScheduleTimes): string {
  const { cron, timeZone, everyMs, startAt, endAt, limit } = times;
  return JSON.stringify([cron, timeZone ?? "UTC", everyMs, startAt, endAt, limit]);
}

/** The stored form: JSON, with a body that is not UTF-8 as base64. */
export function encodeSchedule(schedule: CheckedSchedule): string {
  const { body, ...rest } = schedule;
  if (typeof body === "string") return JSON.stringify({ ...rest, body });
  return JSON.stringify({ ...rest, base64: body.toString("base64") });
}

/** Decodes a stored schedule; undefined if another program wrote something else. */
export function decodeSchedule(text: string): CheckedSchedule | undefined {
  try {
    const { base64, ...rest } = JSON.parse(text) as Schedule & { base64?: string };
    return checkSchedule(
      base64 === undefined ? rest : { ...rest, body: Buffer.from(base64, "base64") },
    );
  } catch {
    return undefined; // neither JSON nor a schedule
  }
}
