/** The recurring jobs of a queue in Redis. */
import { pairsOf, scheduleScript } from "../scripts.ts";
import type { QueueSite } from "./site.ts";

/** One run of a schedule. */
export interface Firing {
  readonly id: string;
  /** The due time that the caller saw. */
  readonly due: number;
  /** The next due time; -1 for never again. */
  readonly next: number;
  readonly job: string;
  readonly where: string;
  readonly record: string;
  readonly noOverlap: boolean;
  /** The number of runs after which it ends. */
  readonly limit: number | undefined;
}

/** Reads and writes schedules. */
export class ScheduleStore {
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

  /** `due` is its first run. `regular` is the first run without an immediate one, undefined if there is none. */
  async set(
    id: string,
    json: string,
    first: { readonly due: number; readonly regular: number | undefined },
  ): Promise<void> {
    await this.#run(id, "set", json, first.due, first.regular ?? -1);
  }

  async remove(id: string): Promise<boolean> {
    return (await this.#run(id, "remove")) === 1;
  }

  /** Removes a schedule that cannot be read from the plan. */
  async stop(id: string, due: number): Promise<void> {
    await this.#run(id, "stop", due);
  }

  /** Gives a schedule another due time, unless it changed meanwhile. */
  async replan(id: string, due: number, next: number): Promise<void> {
    await this.#run(id, "replan", due, next);
  }

  async fire(firing: Firing): Promise<void> {
    const { id, due, next, job, where, record, noOverlap, limit = "" } = firing;
    await this.#run(id, "fire", due, next, job, where, record, noOverlap ? "1" : "", limit);
  }

  /** All descriptions ("s" id), newest jobs ("l" id) and numbers of runs ("n" id). */
  async all(): Promise<Map<string, string>> {
    return pairsOf(await this.#site.send("HGETALL", this.#site.keys.schedules));
  }

  /** The description. */
  get(id: string): Promise<string | null> {
    return this.#site.send("HGET", this.#site.keys.schedules, `s${id}`);
  }

  /** id -> due ms, the next ones first. */
  async due(limit?: number): Promise<Map<string, number>> {
    const last = limit === undefined ? "-1" : String(limit - 1);
    const args = ["0", last, "WITHSCORES"];
    const flat = await this.#site.send<readonly string[]>("ZRANGE", this.#site.keys.plan, ...args);
    return new Map([...pairsOf(flat)].map(([id, due]) => [id, Number(due)]));
  }

  #run(id: string, verb: string, ...args: readonly (string | number)[]): Promise<number> {
    return this.#site.run(scheduleScript, this.#site.keys.all, [id, verb, ...args]);
  }
}
