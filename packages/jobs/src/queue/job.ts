/** The handle on one job that add() returns. */
import type { WaitBounds } from "@ropeway/core/internal";
import type { JobChanges } from "../admin/admin.ts";
import type { JobView } from "../admin/job-view.ts";
import type { ChildOutcome } from "../flow/flow.ts";
import type { NotAdded } from "../store/queue-store.ts";

/** The methods of its queue that a handle calls. */
export interface JobHome {
  get(id: string): Promise<JobView | undefined>;
  result(id: string, bounds?: WaitBounds): Promise<unknown>;
  children(id: string): Promise<ChildOutcome[]>;
  cancel(id: string, reason?: string): Promise<"removed" | "signalled">;
  remove(id: string): Promise<void>;
  promote(id: string): Promise<void>;
  retry(id: string): Promise<void>;
  update(id: string, changes: JobChanges): Promise<void>;
}

/**
 * A handle on a job: the new one, or an existing one in its place. It has only the id
 * and methods; all state is in Redis.
 */
export class Job<Result = unknown, Name extends string = string, Data = unknown> {
  readonly id: string;
  readonly name: Name;
  /** Why this is an earlier job and not a new one; undefined if it is new. */
  readonly deduplicated: "exists" | "kept" | "replaced" | undefined;
  readonly #home: JobHome;

  /** @internal Made by a queue. */
  constructor(
    home: JobHome,
    id: string,
    about: { readonly name: Name; readonly why?: NotAdded["why"] | undefined },
  ) {
    this.#home = home;
    this.id = id;
    this.name = about.name;
    this.deduplicated = about.why;
  }

  /** The job as it is now; undefined if it does not exist any more. */
  view(): Promise<JobView | undefined> {
    return this.#home.get(this.id);
  }

  /**
   * Waits until the job has ended and returns its result. Rejects with the job's error if it failed:
   * errors of this library by their own class, all others as JobFailedError. Add the job with `awaited:
   * true` to find the result even if the job ends before this is called.
   */
  result(bounds?: WaitBounds): Promise<Result> {
    return this.#home.result(this.id, bounds) as Promise<Result>;
  }

  /** The outcomes of the jobs this one waits for, in their order. */
  children(): Promise<ChildOutcome[]> {
    return this.#home.children(this.id);
  }

  /** Takes the job out of the queue, or aborts the signal of its handler. */
  cancel(reason?: string): Promise<"removed" | "signalled"> {
    return this.#home.cancel(this.id, reason);
  }

  /** Removes the job. Throws JobStateError if it is running. */
  remove(): Promise<void> {
    return this.#home.remove(this.id);
  }

  /** Ends the job's delay. */
  promote(): Promise<void> {
    return this.#home.promote(this.id);
  }

  /** Runs the ended job again, with all its attempts. */
  retry(): Promise<void> {
    return this.#home.retry(this.id);
  }

  /** Changes the data, priority or delay of a job that has not started. */
  update(changes: JobChanges<Data>): Promise<void> {
    return this.#home.update(this.id, changes);
  }
}
