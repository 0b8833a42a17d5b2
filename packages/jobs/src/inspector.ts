/** Looking at the jobs of a queue, and changing them by hand. */
import { JobNotFoundError, JobStateError } from "./errors.ts";
import { JOB_STATES, type JobState, type JobView, viewOf } from "./job-view.ts";
import { encodeData } from "./record.ts";
import { pairsOf } from "./scripts.ts";
import type { QueueStore } from "./store.ts";

/** How many jobs are where. */
export interface QueueCounts extends Readonly<Record<JobState, number>> {
  readonly paused: boolean;
  /** How long the next job has waited; undefined if none waits. */
  readonly oldestWaitingMs?: number;
  /** Since the queue exists. */
  readonly totals: {
    readonly completed: number;
    readonly failed: number;
    readonly retried: number;
    readonly stalled: number;
  };
}

/** What to look for. */
export interface SearchQuery {
  readonly state?: JobState | readonly JobState[];
  readonly name?: string;
  /** A job's id, or text that occurs in the JSON of its data. */
  readonly text?: string;
  readonly group?: string;
  /** @default 50 */
  readonly limit?: number;
  /** `cursor` of the page before. */
  readonly cursor?: string | undefined;
  /** The most jobs one call looks at before it gives a cursor. @default 200000 */
  readonly scan?: number;
}

/** What was found, and where to go on. */
export interface SearchPage {
  readonly jobs: readonly JobView[];
  /** Undefined when everything was looked at. */
  readonly cursor?: string;
}

/** A worker that has shown a sign of life. */
export interface WorkerView {
  readonly id: string;
  readonly name: string;
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly startedAt: number;
  readonly seenAt: number;
}

const PLACES = 1_000; // looked at per script call: a few ms of Redis
const DRAIN = 500;

/** The operator's view of one queue. */
export class Inspector {
  readonly #store: QueueStore;

  constructor(store: QueueStore) {
    this.#store = store;
  }

  async get(id: string): Promise<JobView | undefined> {
    const raw = await this.#store.inspect(id);
    return raw === undefined ? undefined : viewOf(raw);
  }

  async counts(): Promise<QueueCounts> {
    const { states, oldestMs, meta } = await this.#store.counts();
    const total = (name: string) => Number(meta.get(name) ?? 0);
    const perState = Object.fromEntries(JOB_STATES.map((state, i) => [state, states[i] ?? 0]));
    return {
      ...(perState as Record<JobState, number>),
      paused: meta.has("paused"),
      ...(oldestMs < 0 ? {} : { oldestWaitingMs: oldestMs }),
      totals: {
        completed: total("completed"),
        failed: total("failed"),
        retried: total("retried"),
        stalled: total("stalled"),
      },
    };
  }

  /** Finds jobs; each state is gone through in the order in which its jobs run or, newest first, ended. */
  async search(query: SearchQuery = {}): Promise<SearchPage> {
    const { name = "", text = "", group = "", limit = 50, scan = 200_000 } = query;
    const states = query.state === undefined ? JOB_STATES : [query.state].flat();
    const jobs: JobView[] = [];
    let [index, first] = readCursor(query.cursor);
    for (let looked = 0; index < states.length; looked += PLACES) {
      if (jobs.length >= limit || looked >= scan) return { jobs, cursor: `${index}.${first}` };
      const state = states[index] as JobState;
      const left = limit - jobs.length;
      const where = { state, first, places: PLACES, limit: left };
      const found = await this.#store.search({ ...where, name, text, group });
      jobs.push(...found.jobs.map(viewOf));
      if (found.next < 0) index += 1;
      first = Math.max(0, found.next);
    }
    return { jobs };
  }

  /** Workers with a sign of life within two leases; others are forgotten. */
  async workers(): Promise<WorkerView[]> {
    const { workers: key } = this.#store.keys;
    const [now, flat] = await Promise.all([
      this.#store.now(),
      this.#store.send<readonly string[]>("HGETALL", key),
    ]);
    const workers: WorkerView[] = [];
    for (const [id, text] of pairsOf(flat)) {
      const [seen = ""] = text.split(" ", 1);
      const about = JSON.parse(text.slice(seen.length + 1)) as Omit<WorkerView, "id" | "seenAt">;
      if (now - Number(seen) <= 2 * about.leaseMs) {
        workers.push({ id, ...about, seenAt: Number(seen) });
      } else {
        await this.#store.send("HDEL", key, id);
      }
    }
    return workers;
  }

  /** Forgets a job that is not running. */
  async remove(id: string): Promise<void> {
    await this.#change(id, "remove");
  }

  /** Takes a job out of the queue or, if it runs, aborts its handler's signal. */
  async cancel(id: string, reason: string = ""): Promise<"removed" | "signalled"> {
    const answer = await this.#change(id, "cancel", reason);
    return answer === "signalled" ? "signalled" : "removed";
  }

  /** Ends a job's delay. */
  async promote(id: string): Promise<void> {
    await this.#change(id, "promote");
  }

  /** Runs an ended job again, with all its attempts. */
  async retry(id: string): Promise<void> {
    await this.#change(id, "retry");
  }

  /** Gives a job that has not started other data. */
  async update(id: string, data: unknown): Promise<void> {
    await this.#change(id, "update", encodeData(data, id));
  }

  /** Retries all failed jobs that match; returns how many. */
  async retryAll(query: Omit<SearchQuery, "state" | "cursor" | "limit"> = {}): Promise<number> {
    let count = 0;
    for (;;) {
      const { jobs } = await this.search({ ...query, state: "failed", limit: DRAIN });
      if (jobs.length === 0) return count;
      await Promise.all(jobs.map((job) => this.#store.change(job.id, "retry")));
      count += jobs.length;
    }
  }

  /** Forgets all jobs of the states; running jobs stay. Returns how many. */
  async drain(
    states: readonly Exclude<JobState, "active">[],
    olderThanMs: number = 0,
  ): Promise<number> {
    let count = 0;
    for (const state of states) {
      for (;;) {
        const dropped = await this.#store.drain(state, DRAIN, olderThanMs);
        count += dropped;
        if (dropped < DRAIN) break;
      }
    }
    return count;
  }

  async #change(id: string, verb: string, value?: string): Promise<string> {
    const answer = await this.#store.change(id, verb, value);
    if (answer === "done" || answer === "signalled") return answer;
    if (answer === "missing") throw new JobNotFoundError(this.#store.name, id);
    throw new JobStateError(id, verb, answer);
  }
}

function readCursor(cursor: string | undefined): [number, number] {
  const [index = 0, first = 0] = (cursor ?? "0.0").split(".").map(Number);
  return [index, first];
}
