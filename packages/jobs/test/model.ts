/**
 * The expected behaviour of a queue, in memory and as simple as possible: one object per job, and lists
 * made by sorting. model.test.ts runs every command on this and on Redis.
 */

export type JobState = "waiting" | "delayed" | "active" | "blocked" | "failed";

export interface ModelJob {
  readonly id: string;
  state: JobState;
  priority: number;
  group: string;
  /** Position among the jobs that wait in the same place. */
  order: number;
  attempts: number;
  stalls: number;
  key: string;
  cancelled: boolean;
  worker?: number;
  fence?: number;
  /** The job came back after it was taken. It waits in front, ordered by the fence with which it was first taken. */
  back: boolean;
  readonly parent?: ModelJob;
  /** The effect of a failure on the parent: 0 fail, 1 ignore, 2 remove. */
  readonly policy: number;
  /** For a parent: the number of unfinished children, and the children that were counted. */
  left: number;
  readonly told: Set<string>;
}

/** The options of a new job. */
export interface Wishes {
  readonly priority: number;
  readonly group: string;
  readonly delayed: boolean;
  readonly key: string;
  readonly replace: boolean;
}

/** More than any fence of a test. */
const FRONT = 9e15;

export class Model {
  readonly jobs = new Map<string, ModelJob>();
  /** key -> id of the job that holds it. */
  readonly holders = new Map<string, string>();
  readonly old: { id: string; fence: number }[] = [];
  #sequence = 0;
  /** Jobs that come back by the next move, all at once. */
  #returning: ModelJob[] = [];

  in(state: JobState): ModelJob[] {
    return [...this.jobs.values()].filter((job) => job.state === state);
  }

  /** Returns "added", or the reason why not. */
  add(id: string, wishes: Wishes): string {
    if (this.jobs.has(id)) return "exists";
    const holder = this.jobs.get(this.holders.get(wishes.key) ?? "");
    if (wishes.key !== "" && this.holders.has(wishes.key)) {
      if (!wishes.replace) return "kept";
      if (holder?.state === "waiting" || holder?.state === "delayed") {
        this.#replace(holder, wishes);
        return "replaced";
      }
    }
    if (wishes.key !== "") this.holders.set(wishes.key, id);
    const job = this.#make(id, wishes);
    if (wishes.delayed) job.state = "delayed";
    else this.wait(job);
    return "added";
  }

  /** Adds a parent with its children, or nothing. */
  addFlow(id: string, policies: readonly number[]): boolean {
    const ids = [id, ...policies.map((_, i) => `${id}/${i}`)];
    const there = ids.flatMap((one) => this.jobs.get(one) ?? []);
    // Ended children of an earlier flow, which are only kept, are replaced.
    const kept = ({ state, parent }: ModelJob) => parent?.id === id && state === "failed";
    if (!there.every(kept)) return false;
    for (const job of there) this.jobs.delete(job.id);
    const plain = { priority: 0, group: "", delayed: false, key: "", replace: false };
    const parent = this.#make(id, plain);
    parent.state = "blocked";
    parent.left = policies.length;
    for (const [i, policy] of policies.entries()) {
      this.wait(this.#make(`${id}/${i}`, plain, { parent, policy }));
    }
    return true;
  }

  #make(id: string, wishes: Wishes, below?: { parent: ModelJob; policy: number }): ModelJob {
    const { priority, group, key } = wishes;
    const fresh = { order: 0, attempts: 0, stalls: 0, cancelled: false, left: 0, back: false };
    const job: ModelJob = {
      id,
      state: "waiting",
      priority,
      group,
      key,
      ...fresh,
      told: new Set(),
      policy: 0,
      ...below,
    };
    this.jobs.set(id, job);
    return job;
  }

  #replace(job: ModelJob, { priority, group, delayed }: Wishes): void {
    const moved = job.priority !== priority || job.group !== group;
    Object.assign(job, { priority, group, attempts: 0, stalls: 0 });
    if (job.state === "waiting" && moved) this.wait(job);
    if (job.state === "delayed" && !delayed) this.#returning.push(job);
  }

  wait(job: ModelJob): void {
    job.state = "waiting";
    job.back = false;
    job.order = ++this.#sequence;
  }

  /** A job that comes back goes to the front, in the order in which jobs were taken. */
  waitInFront(job: ModelJob, fence: number): void {
    job.state = "waiting";
    if (!job.back) job.order = fence - FRONT;
    job.back = true;
  }

  /** The job will wait again after the next move(). */
  comeBack(job: ModelJob): void {
    job.state = "delayed";
    this.#returning.push(job);
  }

  /** Everything that one script made due moves to its place, sorted by id. */
  move(): void {
    const due = [...new Set(this.#returning)].filter((job) => this.jobs.get(job.id) === job);
    for (const job of due.sort((a, b) => (a.id < b.id ? -1 : 1))) {
      if (job.state === "delayed") this.wait(job);
    }
    this.#returning = [];
  }

  /** The job has ended: completed jobs are gone, failed ones stay. */
  end(job: ModelJob, ok: boolean): void {
    this.#releaseKey(job);
    if (!ok) job.attempts++;
    if (ok) this.jobs.delete(job.id);
    else job.state = "failed";
    this.#tellParent(job, ok ? "completed" : "failed");
  }

  /** The job was removed, cancelled or drained. */
  discard(job: ModelJob): void {
    const ended = job.state === "failed";
    this.#releaseKey(job);
    this.jobs.delete(job.id);
    if (!ended) this.#tellParent(job, "removed");
  }

  #releaseKey(job: ModelJob): void {
    if (this.holders.get(job.key) === job.id) this.holders.delete(job.key);
  }

  #tellParent(job: ModelJob, outcome: string): void {
    const { parent } = job;
    // The parent may be gone, and another job may have its id.
    if (parent === undefined || this.jobs.get(parent.id) !== parent) return;
    if (parent.told.has(job.id)) return;
    parent.told.add(job.id);
    parent.left--;
    if (parent.state !== "blocked") return;
    if (outcome === "failed" && job.policy === 0) this.end(parent, false);
    else if (parent.left <= 0) this.comeBack(parent);
  }

  /** Removes the job from its holder. Returns the fence of the holder and whether the job was cancelled. */
  letGo(job: ModelJob): { fence: number; cancelled: boolean } {
    const { fence = 0, cancelled } = job;
    this.old.push({ id: job.id, fence });
    job.cancelled = false;
    delete job.worker;
    delete job.fence;
    return { fence, cancelled };
  }

  /** The waiting jobs by the place where they wait, each in its order. */
  places(): Map<string, ModelJob[]> {
    const places = new Map<string, ModelJob[]>();
    for (const job of this.in("waiting")) {
      const place = placeOf(job);
      places.set(place, [...(places.get(place) ?? []), job]);
    }
    for (const jobs of places.values()) {
      jobs.sort((a, b) => a.priority - b.priority || a.order - b.order);
    }
    return places;
  }
}

/** Where a job waits. */
export function placeOf(job: ModelJob): string {
  if (job.group !== "") return `group ${job.group}`;
  if (job.priority === 0) return "plain";
  return job.priority < 0 ? "urgent" : "late";
}
