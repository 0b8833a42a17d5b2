/**
 * Pushes the runs of schedules that are due, until it is closed. Any number of schedulers work on one prefix:
 *
 *   read the soonest times -----> due: read the schedule --> push.lua pushes the item and advances the
 *        ^                                                   schedule, in one step, if its due time is
 *        |                                                   unchanged
 *        '--- wait: the next time, or a change of a schedule
 *
 * So each run is pushed once, by the first scheduler that tries. A scheduler that is killed at any point has
 * either pushed it or not. One run replaces all runs that were missed while no scheduler ran.
 */

import { type EventMap, WrongKeyTypeError } from "@ropeway/core";
import { BackgroundRole, dueAfter, Loop, type Opening, reasonOf } from "@ropeway/core/internal";
import { encodeRequest } from "../queue/delivery-request.ts";
import { keyOf } from "../queue/destination.ts";
import { PushSignal } from "../queue/push-signal.ts";
import { addItem, type MergeQueue, type Pushed } from "../queue/queue.ts";
import { requireQueue } from "../queue/require-queue.ts";
import { QueueStore } from "../store/queue-store.ts";
import { MOST_SCHEDULES, type Planned, ScheduleStore } from "../store/schedule-store.ts";
import { type CheckedSchedule, decodeSchedule } from "./schedule.ts";

/** The events of a scheduler. */
export interface SchedulerEvents extends EventMap {
  /** A run was pushed by this scheduler. */
  ran: [id: string, pushed: Pushed];
  /** A run was not pushed because it was later than its schedule allows. */
  skipped: [id: string, run: { readonly lateMs: number }];
}

/** The maximum number of schedules that one check handles. */
const AT_ONCE = 100;
/** The maximum sleep, in case a wake-up was lost. */
const LONGEST_SLEEP_MS = 5_000;
/** The delay before a refused push is tried again. */
const RETRY_MS = 5_000;
/** The wait after a schedule that could neither be run nor advanced. */
const FAILED_MS = 1_000;
/** A smaller step back of the clock is an ordinary correction. */
const CORRECTION_MS = 1_000;

/** Pushes the runs of all schedules of a queue. Every HttpDispatcher has one. */
export class Scheduler extends BackgroundRole<SchedulerEvents> {
  readonly #queue: MergeQueue;
  readonly #store: ScheduleStore;
  readonly #pushes: QueueStore;
  #signal: PushSignal | undefined;
  /** Whether a foreign value in place of the schedules was reported. */
  #isWrong = false;
  /** The time of the last check. */
  #checkedAt = Number.POSITIVE_INFINITY;

  constructor(queue: MergeQueue) {
    requireQueue(queue);
    super("the scheduler", queue.redis.logger);
    this.#queue = queue;
    this.#store = new ScheduleStore(queue.redis, queue.keys);
    this.#pushes = new QueueStore(queue.redis, queue.options);
  }

  protected async open({ defer }: Opening): Promise<void> {
    const signal = await PushSignal.open(this.#queue.redis, this.#queue.keys.scheduleChannel);
    this.#signal = signal;
    defer(() => signal.close());
    const look = new Loop({
      tick: (aborted) => this.#tick(signal, aborted),
      onError: (error) => this.#lookFailed(error),
      backoff: { baseMs: 50, maxMs: 2_000 },
    });
    defer(() => look.close());
    look.start();
  }

  protected override release(): void {
    this.#signal?.ring();
  }

  async #tick(signal: PushSignal, aborted: AbortSignal): Promise<number> {
    const seen = signal.count;
    const waitMs = this.held ? LONGEST_SLEEP_MS : await this.#runDue(aborted);
    if (waitMs > 0) await signal.wait(seen, Math.min(waitMs, LONGEST_SLEEP_MS), aborted);
    return 0;
  }

  /** Reports a foreign value when it is found, and not again at every check. */
  #lookFailed(error: unknown): void {
    const isWrong = error instanceof WrongKeyTypeError;
    if (!isWrong || !this.#isWrong) this.report(error);
    if (isWrong) this.#isWrong = true;
  }

  /** Pushes the runs that are due. Returns the ms until the next one. */
  async #runDue(aborted: AbortSignal): Promise<number> {
    const now = await this.#store.now();
    if (now < this.#checkedAt - CORRECTION_MS) await this.#replan(now, aborted); // also at the first check
    this.#checkedAt = now;
    const planned = await this.#store.planned(AT_ONCE);
    this.#isWrong = false;
    let again = LONGEST_SLEEP_MS;
    for (const each of planned) {
      if (each.due > now) return Math.min(again, each.due - now);
      if (aborted.aborted || this.held) return 0;
      try {
        await this.#run(each, now);
        again = 0; // its next time may be the soonest
      } catch (error) {
        if (!this.#queue.redis.connected) throw error; // the loop tries again
        this.report(error); // the other schedules must not wait for this one
        again = Math.min(again, FAILED_MS);
      }
    }
    return planned.length < AT_ONCE ? again : 0;
  }

  /**
   * The clock was set back, perhaps by an hour. Intervals continue from now and do not wait for their old time.
   * The times of cron patterns are times of day and stay.
   */
  async #replan(now: number, aborted: AbortSignal): Promise<void> {
    const all = await this.#store.planned(MOST_SCHEDULES);
    const ahead = all.filter(({ due }) => due - now > RETRY_MS);
    for (let i = 0; i < ahead.length && !aborted.aborted; i += AT_ONCE) {
      await Promise.all(ahead.slice(i, i + AT_ONCE).map((each) => this.#bringForward(each, now)));
    }
  }

  async #bringForward(planned: Planned, now: number): Promise<void> {
    const stored = await this.#store.read(planned.id);
    const schedule = stored && decodeSchedule(stored.schedule);
    if (schedule?.everyMs === undefined || planned.due - now <= schedule.everyMs) return;
    const next = dueAfter(schedule, now);
    if (next === undefined || next >= planned.due) return; // it has not started
    await this.#store.move(planned, { next, error: "the clock of Redis was set back" });
  }

  async #run(planned: Planned, now: number): Promise<void> {
    const { id, due } = planned;
    const stored = await this.#store.read(id);
    if (stored === undefined) return; // removed meanwhile
    const schedule = decodeSchedule(stored.schedule);
    if (schedule === undefined) {
      const error = "the schedule cannot be read";
      await this.#store.move(planned, { next: undefined, ended: true, error });
      this.#queue.redis.logger.error({ schedule: id }, "a schedule cannot be read and has ended");
      return;
    }
    const lateMs = now - due;
    const following = dueAfter(schedule, now);
    if (lateMs > (schedule.maxLateMs ?? Number.POSITIVE_INFINITY)) {
      const error = `a run was skipped: it was ${lateMs} ms late`;
      const ended = following === undefined;
      const moved = await this.#store.move(planned, { next: following, ended, error });
      if (moved) this.emit("skipped", id, { lateMs });
      return;
    }
    const isLast = stored.runs + 1 >= (schedule.limit ?? Number.POSITIVE_INFINITY);
    const next = isLast ? undefined : following;
    await this.#push(schedule, { ...planned, now, next, revision: stored.revision });
  }

  async #push(
    schedule: CheckedSchedule,
    run: Planned & { now: number; next: number | undefined; revision: string },
  ): Promise<void> {
    const { destination, body, contentType, update, request } = schedule;
    const item = `${run.id}@${run.due}`;
    const words: (string | Buffer)[] = [];
    addItem(words, body, { id: item, update, contentType });
    try {
      const pushed = await this.#pushes.pushRun({
        ...{ key: keyOf(destination, item), words, run, request: encodeRequest(request) },
        maxWaitMs: this.#queue.options.maxWaitMs,
      });
      if (pushed !== undefined) this.emit("ran", run.id, pushed);
    } catch (error) {
      if (!this.#queue.redis.connected) throw error; // the loop tries again
      // Redis is out of memory, or the key has a wrong type: the other schedules must not wait for this one.
      const next = run.now + RETRY_MS;
      await this.#store.move(run, { next, error: `the push failed: ${reasonOf(error)}` });
      this.report(error);
    }
  }
}
