/** The recurring jobs of a queue: written, listed, and fired once per due time by whoever is first. */
import { checkName, planJob } from "./job-plan.ts";
import { encodeRecord } from "./record.ts";
import { checkSchedule, dueAfter, type Schedule, type ScheduleView } from "./schedule.ts";
import { pairsOf } from "./scripts.ts";
import type { QueueStore } from "./store.ts";

const AT_ONCE = 100;

/** Reads and writes schedules. */
export class ScheduleBook {
  readonly #store: QueueStore;

  constructor(store: QueueStore) {
    this.#store = store;
  }

  async set(id: string, schedule: Schedule): Promise<void> {
    checkName("schedule id", id);
    checkSchedule(schedule);
    recordOf(id, schedule); // refuses what could not be added later
    await this.#store.register();
    const due = dueAfter(schedule, await this.#store.now());
    if (due === undefined) {
      await this.#store.plan(id, "remove", []);
      return;
    }
    await this.#store.plan(id, "set", [JSON.stringify(schedule), due]);
  }

  async remove(id: string): Promise<boolean> {
    return (await this.#store.plan(id, "remove", [])) === 1;
  }

  async list(): Promise<ScheduleView[]> {
    const { schedules, plan } = this.#store.keys;
    const [texts, dues] = await Promise.all([
      this.#store.send<readonly string[]>("HGETALL", schedules).then(pairsOf),
      this.#store.send<readonly string[]>("ZRANGE", plan, "0", "-1", "WITHSCORES").then(pairsOf),
    ]);
    const views: ScheduleView[] = [];
    for (const [field, text] of texts) {
      if (!field.startsWith("s")) continue;
      const id = field.slice(1);
      const due = dues.get(id);
      const next = due === undefined ? {} : { nextAt: Number(due) };
      views.push({ id, ...(JSON.parse(text) as Schedule), ...next });
    }
    return views.sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** Adds the jobs that are due; returns the ms until the next one, or undefined if there is none. */
  async fireDue(): Promise<number | undefined> {
    const { plan } = this.#store.keys;
    const [now, heads] = await Promise.all([
      this.#store.now(),
      this.#store.send<readonly string[]>("ZRANGE", plan, "0", String(AT_ONCE - 1), "WITHSCORES"),
    ]);
    for (const [id, due] of pairsOf(heads)) {
      const ms = Number(due) - now;
      if (ms > 0) return ms;
      await this.#fire(id, Number(due), now);
    }
    return heads.length === 0 ? undefined : 0;
  }

  /** Runs that were missed while nobody worked are made up for by one. */
  async #fire(id: string, due: number, now: number): Promise<void> {
    const { schedules } = this.#store.keys;
    const text = await this.#store.send<string | null>("HGET", schedules, `s${id}`);
    if (text === null) {
      await this.#store.plan(id, "remove", []);
      return;
    }
    const schedule = JSON.parse(text) as Schedule;
    const next = dueAfter(schedule, Math.max(due, now)) ?? -1;
    const job = [`${id}@${due}`, recordOf(id, schedule), schedule.noOverlap ? "1" : ""];
    await this.#store.plan(id, "fire", [due, next, ...job]);
  }
}

function recordOf(id: string, schedule: Schedule): string {
  const { options } = planJob(schedule.options);
  return encodeRecord(schedule.name, schedule.data, { ...options, s: id });
}
