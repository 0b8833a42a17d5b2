/** The commands of operators on a queue. */
import {
  changeScript,
  countsScript,
  drainScript,
  limitsScript,
  obliterateScript,
  pairsOf,
  searchScript,
} from "../scripts.ts";
import { type RawJob, rawJob } from "./queue-store.ts";
import { unregisterQueue } from "./registry.ts";
import type { QueueSite } from "./site.ts";

/** The arguments of search.lua. */
export interface SearchCall {
  readonly state: string;
  readonly first: number;
  readonly places: number;
  readonly name: string;
  readonly text: string;
  readonly group: string;
  readonly limit: number;
  /** Only jobs that ended until this ms. */
  readonly endedUntil?: number | undefined;
}

/** The arguments of drain.lua. */
export interface DrainCall {
  readonly state: string;
  readonly limit: number;
  readonly olderThanMs: number;
  readonly skip: number;
}

/** The changes that update() makes. The short names are part of change.lua. */
export interface JobUpdate {
  readonly p?: number;
  readonly d?: number;
  readonly at?: number;
  readonly j?: 1;
}

/** The numbers of a queue. */
export interface RawCounts {
  /** In the order of JOB_STATES. */
  readonly states: readonly number[];
  readonly oldestMs: number;
  readonly paused: boolean;
  /** completed, failed, retried, stalled. */
  readonly totals: readonly number[];
}

const GROUPS_AT_ONCE = 1_000;

/** The operators' commands on one queue. */
export class AdminStore {
  readonly #site: QueueSite;

  constructor(site: QueueSite) {
    this.#site = site;
  }

  get queue(): string {
    return this.#site.name;
  }

  now(): Promise<number> {
    return this.#site.now();
  }

  remove(id: string): Promise<string> {
    return this.#change(id, "remove");
  }

  cancel(id: string, reason: string): Promise<string> {
    return this.#change(id, "cancel", reason);
  }

  promote(id: string): Promise<string> {
    return this.#change(id, "promote");
  }

  retry(id: string): Promise<string> {
    return this.#change(id, "retry");
  }

  update(id: string, how: JobUpdate, json: string): Promise<string> {
    return this.#change(id, "update", JSON.stringify(how), json);
  }

  async search(call: SearchCall): Promise<{ next: number; jobs: RawJob[] }> {
    const { state, first, places, name, text, group, limit, endedUntil = "" } = call;
    const args = [state, first, places, name, text, group, limit, endedUntil];
    const [next, ...found] = await this.#site.run(searchScript, this.#site.keys.hot, args);
    const jobs = (found as readonly (readonly (string | null)[])[]).map(([id, ...rest]) =>
      rawJob(String(id), state, rest),
    );
    return { next: Number(next), jobs };
  }

  async drain(call: DrainCall): Promise<{ dropped: number; looked: number }> {
    const { state, limit, olderThanMs, skip } = call;
    const args = [state, limit, Math.ceil(olderThanMs), skip];
    const [dropped = 0, looked = 0] = await this.#site.run(drainScript, this.#site.keys.hot, args);
    return { dropped, looked };
  }

  async counts(): Promise<RawCounts> {
    const reply = await this.#site.run(countsScript, this.#site.keys.hot, []);
    return {
      states: reply.slice(0, 6).map(Number),
      oldestMs: Number(reply[6]),
      paused: reply[7] !== null,
      totals: reply.slice(8, 12).map(Number),
    };
  }

  /** One line of totals per minute, oldest first. */
  history(minutes: number): Promise<readonly string[]> {
    return this.#site.send("LRANGE", this.#site.keys.history, String(-minutes), "-1");
  }

  /** worker -> "seen ms" SPACE JSON */
  async workers(): Promise<Map<string, string>> {
    return pairsOf(await this.#site.send("HGETALL", this.#site.keys.workers));
  }

  async forgetWorkers(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#site.send("HDEL", this.#site.keys.workers, ...ids);
  }

  async pause(): Promise<void> {
    await this.setLimits([["paused", "1"]], []);
  }

  async resume(): Promise<void> {
    await this.setLimits([], ["paused", "hold", "holdms"]);
  }

  /** Writes and removes fields of the limits. Groups that a limit held back may run again. */
  async setLimits(
    set: readonly (readonly [string, string])[],
    remove: readonly string[],
  ): Promise<void> {
    const args = [GROUPS_AT_ONCE, set.length, ...set.flat(), ...remove];
    const write = () => this.#site.run(limitsScript, this.#site.keys.hot, args);
    // Bounded: groups that workers hold back again meanwhile must not make the loop endless.
    for (let left = await write(); left > 0; left -= GROUPS_AT_ONCE) await write();
  }

  async limits(fields: readonly string[]): Promise<(number | undefined)[]> {
    const { meta } = this.#site.keys;
    const values = await this.#site.send<readonly (string | null)[]>("HMGET", meta, ...fields);
    return values.map((value) => (value === null ? undefined : Number(value)));
  }

  /** Frees a dedupe key; false if no job held it. */
  async removeDedupeKey(key: string): Promise<boolean> {
    const { dedupe, timers } = this.#site.keys;
    await this.#site.send("ZREM", timers, `d${key}`);
    return (await this.#site.send("HDEL", dedupe, key)) === 1;
  }

  /**
   * Deletes everything except what parents in other queues have to know. Returns the number of jobs; -1 if jobs run and
   * `force` is false; -2 if an earlier call has not ended with forgetGone().
   */
  async obliterate(force: boolean, token: string): Promise<number> {
    const { redis, prefix, name } = this.#site;
    const jobs = await this.#obliterate(force ? "1" : "", token);
    if (jobs >= 0) await unregisterQueue(redis, prefix, name);
    return jobs;
  }

  /** The token of the call whose jobs are still there. */
  goneToken(): Promise<string | null> {
    return this.#site.send("HGET", this.#site.keys.gone, "");
  }

  /** Deletes what is left of that call. */
  async forgetGone(token: string): Promise<void> {
    await this.#obliterate("told", token);
  }

  #obliterate(how: string, token: string): Promise<number> {
    const { all, gone, goneoutbox } = this.#site.keys;
    return this.#site.run(obliterateScript, [...all, gone, goneoutbox], [how, token]);
  }

  #change(id: string, verb: string, ...values: readonly string[]): Promise<string> {
    return this.#site.run(changeScript, this.#site.keys.hot, [id, verb, ...values]);
  }
}
