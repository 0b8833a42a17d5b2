/** What add() returns: a handle on one job. */
import type { WaitBounds } from "@ropeway/core/internal";
import type { JobView } from "./job-view.ts";
import type { NotAdded } from "./store.ts";

/** What a handle needs of its queue. */
export interface JobHome {
  get(id: string): Promise<JobView | undefined>;
  result(id: string, bounds?: WaitBounds): Promise<unknown>;
  cancel(id: string, reason?: string): Promise<"removed" | "signalled">;
  remove(id: string): Promise<void>;
}

/** A job that was added, or the one that is there instead. */
export class Job {
  readonly id: string;
  readonly name: string;
  /** Why this is an earlier job and not a new one; undefined if it is new. */
  readonly deduplicated: NotAdded["why"] | undefined;
  readonly #home: JobHome;

  constructor(
    home: JobHome,
    id: string,
    about: { name: string; why?: NotAdded["why"] | undefined },
  ) {
    this.#home = home;
    this.id = id;
    this.name = about.name;
    this.deduplicated = about.why;
  }

  /** All that is known of it now; undefined if it is gone. */
  view(): Promise<JobView | undefined> {
    return this.#home.get(this.id);
  }

  /** Its result, as soon as it has ended; add it with `awaited: true` to be sure to find it. */
  result(bounds?: WaitBounds): Promise<unknown> {
    return this.#home.result(this.id, bounds);
  }

  /** Takes it out of the queue, or asks its handler to stop. */
  cancel(reason?: string): Promise<"removed" | "signalled"> {
    return this.#home.cancel(this.id, reason);
  }

  remove(): Promise<void> {
    return this.#home.remove(this.id);
  }
}
