/** Every command about schedules, except the push of a run, which belongs to QueueStore. */
import {
  defineScript,
  isReply,
  OutOfMemoryError,
  type Redis,
  type Script,
  WrongKeyTypeError,
} from "@ropeway/core";
import { TooManySchedulesError } from "../errors.ts";
import type { MergeKeys } from "../keys.ts";
import { countOf, fields, numberOf } from "./scripts.ts";

/** A stored schedule. */
export interface StoredSchedule {
  readonly id: string;
  /** JSON. */
  readonly schedule: string;
  readonly revision: string;
  readonly state: "active" | "paused" | "ended";
  readonly runs: number;
  /** When it is due next, ms since 1970; undefined unless it is active. */
  readonly nextAt: number | undefined;
  /** When its last run was due, ms since 1970. */
  readonly lastAt: number | undefined;
  readonly error: string | undefined;
}

/** A schedule and its next time. */
export interface Planned {
  readonly id: string;
  readonly due: number;
}

const change: Script<number> = defineScript(new URL("../../lua/schedule.lua", import.meta.url), {
  parse: Number,
  idempotent: true,
});
/** Limits the size of an operator's list. Each check for due schedules is one command. */
export const MOST_SCHEDULES = 10_000;

/** The schedules of one prefix. */
export class ScheduleStore {
  readonly #redis: Redis;
  readonly #keys: MergeKeys;

  constructor(redis: Redis, keys: MergeKeys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  async set(
    id: string,
    given: { next: number; schedule: string; times: string; revision: string },
  ): Promise<void> {
    const { next, schedule, times, revision } = given;
    const args = [next, schedule, times, revision, MOST_SCHEDULES];
    const done = await this.#change(id, "set", args).catch((error) => {
      throw isReply(error, "OOM") ? new OutOfMemoryError(`the schedule ${id}`, error) : error;
    });
    if (done < 0) throw new TooManySchedulesError(id, MOST_SCHEDULES);
  }

  async remove(id: string): Promise<boolean> {
    return (await this.#change(id, "remove")) === 1;
  }

  /** Returns whether the schedule exists. */
  async pause(id: string): Promise<boolean> {
    return (await this.#change(id, "pause")) === 1;
  }

  /** Returns whether the schedule exists. */
  async resume(id: string, next: number | undefined): Promise<boolean> {
    return (await this.#change(id, "resume", [next ?? "inf"])) === 1;
  }

  /** Advances a schedule without a run, if its due time is the one that the caller saw. Returns whether it was. */
  async move(
    { id, due }: Planned,
    given: { next: number | undefined; ended?: boolean; error: string },
  ): Promise<boolean> {
    const { next, ended = false, error } = given;
    const args = [due, next ?? "inf", ended ? "ended" : "", error.slice(0, 500)];
    return (await this.#change(id, "move", args)) === 1;
  }

  /**
   * The first schedules by time, soonest first, without paused and ended ones. -inf is a foreign value: it can neither
   * be run nor advanced.
   */
  async planned(most: number): Promise<readonly Planned[]> {
    const limit = ["LIMIT", "0", String(most)];
    const words = ["ZRANGEBYSCORE", this.#keys.schedules, "(-inf", "(inf", "WITHSCORES", ...limit];
    const flat = await this.#send<readonly string[]>(words).catch((error) => {
      if (isReply(error, "WRONGTYPE")) throw new WrongKeyTypeError(this.#keys.schedules, error);
      throw error;
    });
    return flat.flatMap((id, i) => (i % 2 === 0 ? [{ id, due: Number(flat[i + 1]) }] : []));
  }

  /** The ids, soonest first; paused and ended schedules come last. */
  ids(from: number, most: number): Promise<readonly string[]> {
    return this.#send(["ZRANGE", this.#keys.schedules, String(from), String(from + most - 1)]);
  }

  /** The bytes of one schedule; 0 if it does not exist. */
  size(id: string): Promise<number> {
    return this.#send<number>(["HSTRLEN", this.#keys.schedule(id), "schedule"]).catch((error) => {
      if (isReply(error, "WRONGTYPE")) return 0;
      throw error;
    });
  }

  /** One schedule; undefined if it does not exist. */
  async read(id: string): Promise<StoredSchedule | undefined> {
    const [score, flat] = await Promise.all([
      this.#send<string | null>(["ZSCORE", this.#keys.schedules, id]),
      this.#send<readonly string[]>(["HGETALL", this.#keys.schedule(id)]).catch((error) => {
        if (isReply(error, "WRONGTYPE")) return [] as readonly string[];
        throw error;
      }),
    ]);
    if (score === null) return undefined;
    const { schedule = "", revision = "", state, runs, last, error } = fields(flat);
    const next = Number(score);
    return {
      ...{ id, schedule, revision, runs: countOf(runs), error },
      state: state === "paused" || state === "ended" ? state : "active",
      nextAt: Number.isFinite(next) ? next : undefined,
      lastAt: last === undefined ? undefined : numberOf(last),
    };
  }

  /** The time of Redis, ms since 1970. */
  async now(): Promise<number> {
    const [seconds, micros] = await this.#send<readonly string[]>(["TIME"]);
    return Math.floor(Number(seconds) * 1_000 + Number(micros) / 1_000);
  }

  #change(id: string, verb: string, args: readonly (string | number)[] = []): Promise<number> {
    const { schedules, scheduleChannel } = this.#keys;
    const keys = [schedules, this.#keys.schedule(id)];
    return this.#redis.run(change, keys, [id, scheduleChannel, verb, ...args]);
  }

  #send<T extends readonly string[] | string | number | null>(
    words: readonly string[],
  ): Promise<T> {
    return this.#redis.send<T>(words, { key: this.#keys.schedules, repeatable: true });
  }
}
