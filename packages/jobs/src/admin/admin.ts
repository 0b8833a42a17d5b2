/** Inspecting the jobs of a queue, and changing them manually. */
import { randomUUID } from "node:crypto";
import { InvalidArgumentError, type Page } from "@ropeway/core";
import { between, flag, integer, oneOf, type Rule, satisfying, text } from "@ropeway/core/internal";
import { JobNotFoundError, JobStateError, QueueActiveError } from "../errors.ts";
import { checkId, checkName } from "../name.ts";
import { LONGEST_MS } from "../options.ts";
import { checkNames, planJob } from "../queue/job-plan.ts";
import { encodeData } from "../record.ts";
import type { AdminStore, JobUpdate } from "../store/admin-store.ts";
import type { QueueStore } from "../store/queue-store.ts";
import { JOB_STATES, type JobState, type JobView, viewOf } from "./job-view.ts";

/** The number of jobs in each state. */
export interface QueueCounts extends Readonly<Record<JobState, number>> {
  readonly paused: boolean;
  /** How long the next job has waited; undefined if none waits. */
  readonly oldestWaitingMs?: number;
  /** Counted since the queue was created. */
  readonly totals: {
    readonly completed: number;
    readonly failed: number;
    readonly retried: number;
    readonly stalled: number;
  };
}

/** The criteria of a search. */
export interface SearchQuery {
  readonly state?: JobState | readonly JobState[];
  readonly name?: string;
  /** A job's id, or a string that occurs in the JSON of its data. */
  readonly text?: string;
  readonly group?: string;
  /** @default 50 */
  readonly limit?: number;
  /** The `cursor` of the previous page. */
  readonly cursor?: string | undefined;
  /** The maximum number of jobs that one call reads before it returns a cursor. @default 200000 */
  readonly scan?: number;
  /** A page ends when its jobs are larger than this; it can exceed it by 4 MiB and a job. @default no limit */
  readonly maxBytes?: number;
}

/** Jobs that ended before a time. */
interface RetryQuery
  extends Omit<SearchQuery, "state" | "cursor" | "limit" | "scan" | "maxBytes"> {}

/** The changes that update() makes. */
export interface JobChanges<Data = unknown> {
  readonly data?: Data;
  readonly priority?: number;
  readonly delayMs?: number;
  readonly runAt?: Date | number;
}

/** A worker that has sent a heartbeat. */
export interface WorkerView {
  readonly id: string;
  readonly name: string;
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly startedAt: number;
  readonly seenAt: number;
}

/** A minute of a queue: how many jobs ended in it, and how many there were at its end. */
export interface MinuteRates {
  /** The beginning of the minute, ms. */
  readonly at: number;
  readonly completed: number;
  readonly failed: number;
  readonly retried: number;
  readonly stalled: number;
  readonly waiting: number;
  readonly delayed: number;
  readonly active: number;
}

const PLACES = 1_000; // places read per script call: a few ms of Redis
const DRAIN = 500;
const DAY_OF_MINUTES = 1_440;
const RETRY_QUERY = new Set(["name", "text", "group"]);
const QUERY = new Set([...RETRY_QUERY, "state", "limit", "cursor", "scan", "maxBytes"]);
const words = satisfying<string>("a string", (value) => typeof value === "string");
const DRAINED_STATES = JOB_STATES.filter((state) => state !== "active");

/** The operator's view of one queue. */
export class Admin {
  readonly #store: AdminStore;
  readonly #jobs: QueueStore;

  constructor(store: AdminStore, jobs: QueueStore) {
    this.#store = store;
    this.#jobs = jobs;
  }

  async get(id: string): Promise<JobView | undefined> {
    const raw = await this.#jobs.inspect(checkId(id));
    return raw === undefined ? undefined : viewOf(raw);
  }

  async counts(): Promise<QueueCounts> {
    const { states, oldestMs, paused, totals } = await this.#store.counts();
    const perState = Object.fromEntries(JOB_STATES.map((state, i) => [state, states[i] ?? 0]));
    const [completed = 0, failed = 0, retried = 0, stalled = 0] = totals;
    return {
      ...(perState as Record<JobState, number>),
      paused,
      ...(oldestMs < 0 ? {} : { oldestWaitingMs: oldestMs }),
      totals: { completed, failed, retried, stalled },
    };
  }

  /** Finds jobs. Jobs of a state come in the order in which they run; ended jobs come newest first. */
  search(query: SearchQuery = {}): Promise<Page<JobView>> {
    return this.#search(query);
  }

  async #search(query: SearchQuery, endedUntil?: number): Promise<Page<JobView>> {
    checkNames("query", query, QUERY);
    const { name = "", text: part = "", group = "", limit = 50, scan = 200_000 } = query;
    for (const [argument, value] of Object.entries({ name, text: part, group })) {
      check(argument, value, words);
    }
    check("limit", limit, integer(1, 100_000));
    check("scan", scan, integer(1));
    const { maxBytes = Number.MAX_SAFE_INTEGER } = query;
    check("maxBytes", maxBytes, integer(1));
    const states = query.state === undefined ? JOB_STATES : [query.state].flat();
    for (const state of states) check("state", state, oneOf(...JOB_STATES));
    const items: JobView[] = [];
    let bytes = 0;
    let [index, first] = readCursor(query.cursor);
    for (let looked = 0; index < states.length; looked += PLACES) {
      const isFull = items.length >= limit || bytes >= maxBytes;
      if (isFull || looked >= scan) return { items, cursor: `${index}.${first}` };
      const state = states[index] as JobState;
      const where = { state, first, places: PLACES, limit: limit - items.length, endedUntil };
      const found = await this.#store.search({ ...where, name, text: part, group });
      items.push(...found.jobs.map(viewOf));
      for (const { record, notes } of found.jobs) bytes += record.length + (notes?.length ?? 0);
      if (found.next < 0) index += 1;
      first = Math.max(0, found.next);
    }
    return { items };
  }

  /** Workers that reported within two leases; others are removed. */
  async workers(): Promise<WorkerView[]> {
    const [now, all] = await Promise.all([this.#store.now(), this.#store.workers()]);
    const workers: WorkerView[] = [];
    const gone: string[] = [];
    for (const [id, line] of all) {
      const worker = readWorker(id, line);
      if (worker !== undefined && now - worker.seenAt <= 2 * worker.leaseMs) workers.push(worker);
      else gone.push(id);
    }
    await this.#store.forgetWorkers(gone);
    return workers;
  }

  /** How many jobs ended per minute, oldest first. Minutes in which no worker ran are missing. */
  async rates(minutes: number): Promise<MinuteRates[]> {
    check("minutes", minutes, integer(1, DAY_OF_MINUTES));
    const lines = await this.#store.history(minutes + 1);
    const rows = lines.map((line) => line.split(" ").map(Number));
    return rows.slice(1).map((row, i) => {
      const [at = 0, ...totals] = row;
      const before = rows[i] as number[];
      const [completed = 0, failed = 0, retried = 0, stalled = 0] = totals
        .slice(0, 4)
        .map((total, n) => Math.max(0, total - (before[n + 1] ?? 0)));
      const [waiting = 0, delayed = 0, active = 0] = totals.slice(4);
      const ended = { completed, failed, retried, stalled };
      return { at: at - 60_000, ...ended, waiting, delayed, active };
    });
  }

  async remove(id: string): Promise<void> {
    this.#expectDone(id, "remove", await this.#store.remove(checkId(id)));
  }

  async cancel(id: string, reason: string = ""): Promise<"removed" | "signalled"> {
    if (typeof reason !== "string") throw new InvalidArgumentError("reason", reason, "a string");
    const outcome = await this.#store.cancel(checkId(id), reason);
    if (outcome === "signalled") return "signalled";
    this.#expectDone(id, "cancel", outcome);
    return "removed";
  }

  async promote(id: string): Promise<void> {
    this.#expectDone(id, "promote", await this.#store.promote(checkId(id)));
  }

  async retry(id: string): Promise<void> {
    this.#expectDone(id, "retry", await this.#store.retry(checkId(id)));
  }

  async update(id: string, changes: JobChanges): Promise<void> {
    const { data, ...times } = changes;
    const { placement } = planJob(times);
    const now = times.delayMs === 0 ? { d: 0 } : {};
    const how: JobUpdate = {
      ...now,
      ...(placement?.d === undefined ? {} : { d: placement.d }),
      ...(placement?.at === undefined ? {} : { at: placement.at }),
      ...(times.priority === undefined ? {} : { p: times.priority }),
      ...("data" in changes ? { j: 1 as const } : {}),
    };
    const json = "data" in changes ? encodeData(data, id) : "";
    this.#expectDone(id, "update", await this.#store.update(checkId(id), how, json));
  }

  /** Retries the matching jobs that have failed until now. Returns how many. */
  async retryAll(query: RetryQuery = {}): Promise<number> {
    checkNames("query", query, RETRY_QUERY);
    const until = await this.#store.now();
    const ids: string[] = [];
    let cursor: string | undefined;
    do {
      const wanted: SearchQuery = { ...query, state: "failed", limit: DRAIN, cursor };
      const page = await this.#search(wanted, until);
      ids.push(...page.items.map((job) => job.id));
      cursor = page.cursor;
    } while (cursor !== undefined);
    let count = 0;
    for (let first = 0; first < ids.length; first += DRAIN) {
      const some = ids.slice(first, first + DRAIN);
      const outcomes = await Promise.all(some.map((id) => this.#store.retry(id)));
      count += outcomes.filter((outcome) => outcome === "done").length;
    }
    return count;
  }

  /** Removes the jobs that are in these states now. Returns how many. */
  async drain(states: readonly JobState[], olderThanMs: number = 0): Promise<number> {
    if (!Array.isArray(states as unknown))
      throw new InvalidArgumentError("states", states, "an array");
    for (const state of states) check("state", state, oneOf(...DRAINED_STATES));
    check("olderThanMs", olderThanMs, between(0, LONGEST_MS));
    const counts = await this.counts();
    let count = 0;
    for (const state of states) {
      let [skip, left] = [0, counts[state]]; // jobs that are added meanwhile must not make it endless
      while (left > 0) {
        const limit = Math.min(DRAIN, left);
        const { dropped, looked } = await this.#store.drain({ state, limit, olderThanMs, skip });
        if (looked === 0) break;
        count += dropped;
        skip += looked - dropped;
        left -= looked;
      }
    }
    return count;
  }

  async removeDedupeKey(key: string): Promise<boolean> {
    return this.#store.removeDedupeKey(checkName("dedupe key", key));
  }

  /** Deletes the queue. `tell` notifies the parents of its jobs in other queues. */
  async obliterate(force: boolean, tell: () => Promise<void>): Promise<number> {
    check("force", force, flag);
    const token = randomUUID();
    for (;;) {
      const jobs = await this.#store.obliterate(force, token);
      if (jobs === -1) throw new QueueActiveError(this.#store.queue);
      const gone = await this.#store.goneToken(); // of this call, or of one that did not end
      if (gone !== null) {
        await tell();
        await this.#store.forgetGone(gone);
      }
      if (jobs >= 0) return jobs;
    }
  }

  #expectDone(id: string, verb: string, outcome: string): void {
    if (outcome === "done") return;
    if (outcome === "missing") throw new JobNotFoundError(this.#store.queue, id);
    throw new JobStateError(id, verb, outcome);
  }
}

function check<T>(argument: string, value: unknown, rule: Rule<T>): void {
  if (!rule.accepts(value)) throw new InvalidArgumentError(argument, value, rule.allowed);
}

/** The worker that the line describes; undefined if the line is malformed. */
function readWorker(id: string, line: string): WorkerView | undefined {
  const [seen = ""] = line.split(" ", 1);
  try {
    const about = JSON.parse(line.slice(seen.length + 1)) as Omit<WorkerView, "id" | "seenAt">;
    return { ...about, id, seenAt: Number(seen) };
  } catch {
    return undefined; // another program wrote it: it is removed like a dead worker
  }
}

function readCursor(cursor: string | undefined): [number, number] {
  if (cursor === undefined) return [0, 0];
  const match = /^(\d{1,3})\.(\d{1,12})$/.exec(text.accepts(cursor) ? cursor : "");
  if (match === null) throw new InvalidArgumentError("cursor", cursor, "the cursor of a page");
  return [Number(match[1]), Number(match[2])];
}
