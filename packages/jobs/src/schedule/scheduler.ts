/**
 * The recurring jobs of a queue: written, listed, and fired once per due time by the first worker that
 * checks.
 */
import { InvalidArgumentError, InvalidOptionError } from "@ropeway/core";
import { dueAfter, firstDue } from "@ropeway/core/internal";
import { MalformedJobError } from "../errors.ts";
import { checkId, checkName } from "../name.ts";
import type { JobOptions } from "../options.ts";
import { placementText, planJob, withDefaults } from "../queue/job-plan.ts";
import { encodeRecord } from "../record.ts";
import type { ScheduleStore } from "../store/schedule-store.ts";
import { checkSchedule, type Schedule, type ScheduleView } from "./schedule.ts";

const AT_ONCE = 100;
/** Job options that a schedule sets itself. */
const OWN = ["id", "delayMs", "runAt", "dedupe"] as const;
/** A smaller correction does not count as setting the clock back. */
const CORRECTION_MS = 1_000;

/** Redis's scripts cannot read JSON that is nested more than 1,000 levels deep, */
const DEEPEST = 500;
/** nor half of a surrogate pair, which is the only thing that JSON.stringify() writes like this. */
const HALF = /(?<!\\)(?:\\\\)*\\ud[89a-f]/;
const READABLE = `nested at most ${DEEPEST} levels deep, without halves of surrogate pairs in its strings`;

/** Reads, writes and fires schedules. */
export class Scheduler {
  readonly #store: ScheduleStore;
  readonly #defaults: JobOptions | undefined;
  /** The server's time at the last check. */
  #checkedAt = Number.POSITIVE_INFINITY;

  constructor(store: ScheduleStore, defaults?: JobOptions) {
    this.#store = store;
    this.#defaults = defaults;
  }

  async set(id: string, schedule: Schedule): Promise<void> {
    checkName("schedule id", id);
    checkSchedule(schedule);
    const given: JobOptions = schedule.options ?? {};
    for (const name of OWN) {
      if (given[name] === undefined) continue;
      throw new InvalidOptionError(`options.${name}`, given[name], "left to the schedule");
    }
    const { id: _, delayMs, runAt, dedupe, ...defaults } = this.#defaults ?? {};
    const options = withDefaults(defaults, schedule.options) ?? {};
    const whole: Schedule = { ...schedule, options };
    jobOf(id, whole); // refuses a job that could not be added later
    const json = JSON.stringify(whole);
    if (depthOf(json) > DEEPEST || HALF.test(json)) {
      throw new InvalidArgumentError("data", schedule.data, READABLE);
    }
    const now = await this.#store.now();
    const due = firstDue(whole, now);
    const regular = dueAfter(whole, now);
    if (due === undefined) await this.#store.remove(id);
    else await this.#store.set(id, json, { due, regular });
  }

  async remove(id: string): Promise<boolean> {
    return this.#store.remove(checkId(id, "schedule id"));
  }

  async list(): Promise<ScheduleView[]> {
    const [fields, dues] = await Promise.all([this.#store.all(), this.#store.due()]);
    const views: ScheduleView[] = [];
    for (const [field, json] of fields) {
      if (!field.startsWith("s")) continue;
      const id = field.slice(1);
      const due = dues.get(id);
      const next = due === undefined ? {} : { nextAt: due };
      const runs = Number(fields.get(`n${id}`) ?? 0);
      const schedule = readSchedule(json);
      const unreadable = { name: "", malformed: true as const };
      views.push({ ...(schedule ?? unreadable), id, runs, ...next });
    }
    return views.sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /**
   * Adds the jobs that are due and returns the ms until the next one, or undefined if there is none. A
   * schedule that fails is reported and does not stop the others.
   */
  async fireDue(onError: (error: unknown) => void): Promise<number | undefined> {
    const now = await this.#store.now();
    if (now < this.#checkedAt - CORRECTION_MS) await this.#replan(now); // also at the first check
    this.#checkedAt = now;
    const heads = await this.#store.due(AT_ONCE);
    const mayBeMore = heads.size === AT_ONCE && Math.max(...heads.values()) <= now;
    let next = Number.POSITIVE_INFINITY;
    for (const [id, due] of heads) {
      if (due > now) {
        next = Math.min(next, due - now);
        break;
      }
      try {
        const following = await this.#fire(id, due, now);
        if (mayBeMore) next = 0; // not if all fail, for example while Redis is out of memory
        if (following !== undefined) next = Math.min(next, Math.max(0, following - now));
      } catch (error) {
        onError(error);
        next = Math.min(next, 1_000);
      }
    }
    return Number.isFinite(next) ? next : undefined;
  }

  /**
   * The clock was set back, perhaps by an hour. Intervals continue from now and do not wait for their old time.
   * The times of cron patterns are times of day and stay.
   */
  async #replan(now: number): Promise<void> {
    const [fields, dues] = await Promise.all([this.#store.all(), this.#store.due()]);
    for (const [id, due] of dues) {
      const schedule = due > now ? readSchedule(fields.get(`s${id}`) ?? "") : undefined;
      if (schedule?.everyMs === undefined) continue;
      const next = dueAfter(schedule, now);
      if (next !== undefined && next < due) await this.#store.replan(id, due, next);
    }
  }

  /** One run replaces all runs that were missed while no worker ran. Returns the next due time. */
  async #fire(id: string, due: number, now: number): Promise<number | undefined> {
    const json = await this.#store.get(id);
    const schedule = json === null ? undefined : readSchedule(json);
    if (schedule === undefined) {
      if (json === null) await this.#store.remove(id);
      else await this.#store.stop(id, due);
      if (json !== null) throw new MalformedJobError(id, "its schedule has another form");
      return undefined;
    }
    const next = dueAfter(schedule, Math.max(due, now));
    const { limit, noOverlap = false } = schedule;
    const job = { job: `${id}@${due}`, ...jobOf(id, schedule) };
    await this.#store.fire({ id, due, next: next ?? -1, limit, noOverlap, ...job });
    return next;
  }
}

/** The nesting depth of JSON. */
function depthOf(json: string): number {
  let [depth, deepest] = [0, 0];
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/g)) {
    if (token === "[" || token === "{") deepest = Math.max(deepest, ++depth);
    else if (token === "]" || token === "}") depth--;
  }
  return deepest;
}

/** Decodes a schedule; undefined if it is malformed or can never be due. */
function readSchedule(json: string): Schedule | undefined {
  try {
    const schedule = JSON.parse(json) as Schedule;
    checkSchedule(schedule);
    jobOf("", schedule);
    return schedule;
  } catch {
    return undefined; // reported by the caller
  }
}

function jobOf(id: string, schedule: Schedule): { where: string; record: string } {
  const { placement, options } = planJob(schedule.options);
  return {
    where: placementText(placement),
    record: encodeRecord(schedule.name, schedule.data, { ...options, s: id }),
  };
}
