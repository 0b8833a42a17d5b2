/** The schedules of a merge queue, for applications and operators. scheduler.ts runs them. */

import { InvalidArgumentError, type Page } from "@ropeway/core";
import { dueAfter, firstDue, newToken } from "@ropeway/core/internal";
import { nextPage, type PageOptions, pageOf } from "../admin/paging.ts";
import type { AddressGuard } from "../delivery/address-guard.ts";
import { UnknownScheduleError } from "../errors.ts";
import type { MergeQueue } from "../queue/queue.ts";
import { requireQueue } from "../queue/require-queue.ts";
import { ScheduleStore, type StoredSchedule } from "../store/schedule-store.ts";
import {
  type CheckedSchedule,
  checkSchedule,
  checkScheduleId,
  decodeSchedule,
  encodeSchedule,
  type Schedule,
  timesText,
} from "./schedule.ts";

/** A schedule in the list of schedules. */
export interface ScheduleView {
  readonly id: string;
  /** Undefined if the value in Redis cannot be read; then it never runs. */
  readonly schedule: CheckedSchedule | undefined;
  readonly state: "active" | "paused" | "ended";
  /** When it is due next, ms since 1970; undefined unless it is active. */
  readonly nextAt: number | undefined;
  /** When its last run was due, ms since 1970. */
  readonly lastAt: number | undefined;
  /** How often it ran. */
  readonly runs: number;
  /** Why the last run was skipped or is late. */
  readonly error: string | undefined;
}

/** The maximum of all schedules on a page. One alone may be longer. */
const PAGE_BYTES = 1_048_576;

/** Writes, lists and pauses recurring pushes. */
export class Schedules {
  readonly #store: ScheduleStore;
  readonly #guard: AddressGuard;

  /** The guard refuses schedules for blocked addresses, as EndpointQueue refuses pushes. */
  constructor(queue: MergeQueue, guard: AddressGuard) {
    requireQueue(queue);
    this.#store = new ScheduleStore(queue.redis, queue.keys);
    this.#guard = guard;
  }

  /**
   * Writes or replaces a schedule. If its times are unchanged, it continues as before, so an application
   * can write its schedules at every start. Throws InvalidArgumentError if it can never be due.
   */
  async set(id: string, schedule: Schedule): Promise<ScheduleView> {
    checkScheduleId(id);
    const checked = checkSchedule(schedule);
    const { callback, failureCallback } = checked.request ?? {};
    for (const url of [checked.destination.url, callback, failureCallback]) {
      if (url !== undefined) this.#guard.checkLiteral(url);
    }
    const next = firstDue(checked, await this.#store.now());
    if (next === undefined) {
      throw new InvalidArgumentError("schedule", id, "due at some time before its end");
    }
    await this.#store.set(id, {
      ...{ next, revision: newToken(), times: timesText(checked) },
      schedule: encodeSchedule(checked),
    });
    return this.get(id);
  }

  /** One schedule. Throws UnknownScheduleError. */
  async get(id: string): Promise<ScheduleView> {
    checkScheduleId(id);
    const stored = await this.#store.read(id);
    if (stored === undefined) throw new UnknownScheduleError(id);
    return viewOf(stored);
  }

  /**
   * The schedules, soonest first; paused and ended schedules come last. A page has at most 1 MiB, so one of large
   * schedules is short.
   */
  async list(options: PageOptions = {}): Promise<Page<ScheduleView>> {
    const { from, limit } = pageOf(options);
    const ids = await this.#store.ids(from, limit);
    const count = fitting(await Promise.all(ids.map((id) => this.#store.size(id))));
    const found = await Promise.all(ids.slice(0, count).map((id) => this.#store.read(id)));
    const items = found.filter((stored) => stored !== undefined).map(viewOf);
    const isLast = count === ids.length && ids.length < limit;
    return { items, ...nextPage(isLast ? undefined : from + count) };
  }

  /** Deletes a schedule; items that it pushed stay. Returns whether it existed. */
  async remove(id: string): Promise<boolean> {
    checkScheduleId(id);
    return this.#store.remove(id);
  }

  /** Stops its runs until resume(). Throws UnknownScheduleError. */
  async pause(id: string): Promise<void> {
    checkScheduleId(id);
    if (!(await this.#store.pause(id))) throw new UnknownScheduleError(id);
  }

  /**
   * Lets it run again, starting with its next time. Runs missed during the pause are skipped. Throws
   * UnknownScheduleError.
   */
  async resume(id: string): Promise<void> {
    const { schedule } = await this.get(id);
    const next = schedule && dueAfter(schedule, await this.#store.now());
    if (!(await this.#store.resume(id, next))) throw new UnknownScheduleError(id);
  }
}

/** How many of the first sizes fit on a page, but at least one. */
function fitting(sizes: readonly number[]): number {
  let bytes = 0;
  const beyond = sizes.findIndex((size, i) => {
    bytes += size;
    return bytes > PAGE_BYTES && i > 0;
  });
  return beyond < 0 ? sizes.length : beyond;
}

function viewOf(stored: StoredSchedule): ScheduleView {
  const { id, state, nextAt, lastAt, runs, error } = stored;
  return { id, schedule: decodeSchedule(stored.schedule), state, nextAt, lastAt, runs, error };
}
